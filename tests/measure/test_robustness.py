"""Ids that an encoder would not give."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oatkit.measure.encoded_chunks import encode_chunks
from oatkit.measure.robustness import measure_robustness
from oatkit.types import Tokens
from tests.measure.walks import make_tokenizer, walks


def test_bin_decodes_anything_and_one_token_moves_one_number(tmp_path: Path) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("bin", dataset)
    found = measure_robustness(tokenizer, encode_chunks(tokenizer, dataset).tokens, seed=0)
    assert (found.random_finite, found.random_undecodable) == (1, 0)
    assert (found.corrupted_finite, found.corrupted_undecodable) == (1, 0)
    assert found.corrupted_mse is not None
    # a number u in [-1, 1] differs from a uniform one by 1/3 + u^2 in the mean square, and one of
    # the 24 numbers of a chunk is replaced
    one = float((tokenizer.normalizer.scale**2).mean()) / 24
    assert 0.8 * one / 3 < found.corrupted_mse < 1.2 * one * 4 / 3
    assert found == measure_robustness(
        tokenizer, encode_chunks(tokenizer, dataset).tokens, seed=0
    ), "a seed decides the ids"


def test_ids_that_do_not_decode_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("bin", dataset)

    def nothing_decodes(tokens: Tokens) -> list[torch.Tensor | None]:
        return [None] * len(tokens)

    monkeypatch.setattr(tokenizer, "try_decode", nothing_decodes)
    found = measure_robustness(tokenizer, encode_chunks(tokenizer, dataset).tokens, seed=0)
    assert (found.random_undecodable, found.corrupted_undecodable) == (1, 1)
    assert found.corrupted_mse is None
