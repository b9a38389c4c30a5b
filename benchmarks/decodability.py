"""How many sequences of ids decode, of those that a policy could emit, and what prefixes decode to.

    python -m benchmarks.decodability [--data PATH]

Ids are drawn uniformly, as many as an encoding of the kind has (of `fast`, whose encodings differ,
as many as that of a chunk drawn from the demonstrations). A sequence decodes if it gives finite
actions without being mended: `fast` is strict. Whether ids decode does not depend on training, so
learned tokenizers have the smallest preset and few steps. Errors of prefixes do depend on it: those
of `oat` and `oat-pow2` are measured by `benchmarks.tokenizer_rate_distortion`.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oatkit
from benchmarks.record import write_result
from benchmarks.tokenizer_rate_distortion import SEED, metaworld
from oatkit.data import Dataset
from oatkit.errors import DecodeError
from oatkit.jobs.paper_tables import PAPER_KINDS
from oatkit.measure.encoded_chunks import encode_chunks
from oatkit.measure.properties import measure_properties
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens

NAME = "decodability"
HORIZON, STEPS, TRIED = 32, 4, 1000


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    parser.add_argument("--tried", type=int, default=TRIED, help="sequences of each kind")
    args = parser.parse_args(argv)
    dataset = oatkit.open_dataset(args.data or metaworld())
    found = {kind: measure(kind, dataset, args.tried) for kind in PAPER_KINDS}
    settings = {"horizon": HORIZON, "preset": "tiny", "steps": STEPS}
    write_result(NAME, seed=SEED, settings=settings, results=found)


def measure(kind: str, dataset: Dataset, tried: int) -> dict[str, Any]:
    """How many drawn sequences of a kind decode, how long they are, and whether it is ordered."""
    options: dict[str, Any] = {"decoding": "strict"} if kind == "fast" else {}
    with tempfile.TemporaryDirectory() as folder:
        train: dict[str, Any] = {} if kind in ("bin", "fast") else {"steps": STEPS, "seed": SEED}
        out = Path(folder) / kind
        tokenizer = oatkit.train_tokenizer(
            dataset, kind, out, preset="tiny", horizon=HORIZON, train=train, **options
        )
    held_out = dataset.split(0.1, seed=0)[1]
    generator = torch.Generator().manual_seed(SEED)
    encoded = encode_chunks(tokenizer, held_out)
    lengths = encoded.tokens.lengths
    drawn = lengths[torch.randint(len(lengths), (tried,), generator=generator)].tolist()
    sequences = [
        torch.randint(tokenizer.vocab_size, (1, length), generator=generator) for length in drawn
    ]
    decoded = sum(decodes(tokenizer, ids_1K) for ids_1K in sequences)
    ends = {"shortest": min(drawn), "longest": max(drawn)}
    found = {"tried": tried, "decoded": decoded, **ends, "vocabulary": tokenizer.vocab_size}
    if len(tokenizer.budgets) > 1:
        return found
    measured = measure_tokenizer(tokenizer, held_out, encoded=encoded)
    return {**found, "ordered": asdict(measure_properties(tokenizer, encoded, measured).ordered)}


def decodes(tokenizer: ActionTokenizer, ids_1K: torch.Tensor) -> bool:
    """Whether one sequence of ids gives finite actions."""
    try:
        chunk = tokenizer.decode(Tokens(ids_1K, torch.tensor([ids_1K.shape[1]])))
    except DecodeError:
        return False
    return bool(np.isfinite(np.asarray(chunk)).all())


if __name__ == "__main__":
    main()
