"""How a tokenizer decodes ids that its encoder would not give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Robustness, Tokens

NUM_PROBES = 1000
"""Number of random and of corrupted sequences that are decoded."""


def measure_robustness(tokenizer: ActionTokenizer, tokens: Tokens, seed: int) -> Robustness:
    """Decode random ids, and true sequences with one random id, and count what happens.

    Args:
        tokenizer: Trained or fitted tokenizer.
        tokens: True sequences, some of which are chosen.
        seed: Seed of the choice and of the random ids.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(tokens), (NUM_PROBES,), generator=generator)
    real = tokens.rows(rows)
    random_ids = torch.randint(tokenizer.vocab_size, real.ids.shape, generator=generator)
    random = tokenizer.try_decode(replace(real, ids=random_ids))
    slots = (torch.rand(NUM_PROBES, generator=generator) * real.lengths).long()
    corrupted_ids = real.ids.scatter(1, slots[:, None], random_ids.gather(1, slots[:, None]))
    corrupted = tokenizer.try_decode(replace(real, ids=corrupted_ids))
    truth = tokenizer.try_decode(real)
    changes = [
        float((a - b).double().square().mean())
        for a, b in zip(corrupted, truth, strict=True)
        if a is not None and b is not None
    ]
    return Robustness(
        random_finite=_share_finite(random),
        random_undecodable=_share_undecodable(random),
        corrupted_finite=_share_finite(corrupted),
        corrupted_undecodable=_share_undecodable(corrupted),
        corrupted_mse=float(np.mean(changes)) if changes else None,
    )


def _share_finite(chunks: list[Tensor | None]) -> float:
    finite = [chunk is not None and bool(torch.isfinite(chunk).all()) for chunk in chunks]
    return sum(finite) / len(chunks)


def _share_undecodable(chunks: list[Tensor | None]) -> float:
    return sum(chunk is None for chunk in chunks) / len(chunks)
