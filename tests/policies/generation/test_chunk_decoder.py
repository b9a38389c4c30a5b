"""From tokens to chunks: with and without a correction, and rows that do not decode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.policies.generation.chunk_decoder import ChunkDecoder
from oatkit.types import Tokens
from tests.policies import tiny


def shifted(context: Any, chunk_BTA: Tensor, lengths_B: Tensor) -> Tensor:
    return chunk_BTA + context + lengths_B[:, None, None]


def test_chunks_are_corrected_before_they_become_actions(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("klt", dataset)
    tokens = Tokens(torch.zeros(2, 6, dtype=torch.int64), torch.tensor([1, 4]))
    plain, reasons = ChunkDecoder(tokenizer).decode(tokens)
    assert reasons == {}
    torch.testing.assert_close(plain, tokenizer.decode(tokens))
    found, _ = ChunkDecoder(tokenizer, shifted, 0.5).decode(tokens)
    scale = torch.tensor(tokenizer.normalizer.scale, dtype=torch.float32)
    wanted = plain + scale * torch.tensor([1.5, 4.5])[:, None, None]
    torch.testing.assert_close(found, wanted)


def test_rows_that_do_not_decode_say_why_and_leave_the_others(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("fast", dataset)
    batch = dataset.chunks(tiny.HORIZON).batch([0, 1])
    tokens = tokenizer.encode(torch.from_numpy(batch["action"]))
    cut = Tokens(tokens.ids, tokens.lengths - torch.tensor([0, 1]))
    found, reasons = ChunkDecoder(tokenizer, shifted, 0.0).decode(cut)
    assert list(reasons) == [1]
    assert "coefficients" in reasons[1]
    assert found[1].isnan().all()
    assert found[0].isfinite().all()
    all_bad = Tokens(tokens.ids, tokens.lengths - 1)
    nothing, reasons = ChunkDecoder(tokenizer, shifted, 0.0).decode(all_bad)
    assert list(reasons) == [0, 1]
    assert nothing.shape == (2, tiny.HORIZON, tiny.ACTION_DIM)
    assert nothing.isnan().all()
