"""The chunks that are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from oatkit.measure import encoded_chunks
from oatkit.measure.encoded_chunks import chunks_to_measure, decode_prefix, encode_chunks
from tests.measure.walks import HORIZON, make_tokenizer, walks


def test_chunks_are_spread_over_a_large_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = walks(tmp_path)
    monkeypatch.setattr(encoded_chunks, "MAX_CHUNKS", 4)
    actions_BTA, is_pad_BT, _ = chunks_to_measure(dataset, HORIZON)
    assert actions_BTA.shape == (4, HORIZON, 3)
    for row, (episode, step) in enumerate([(0, 0), (0, 1), (11, -2), (11, -1)]):
        np.testing.assert_array_equal(actions_BTA[row, 0], dataset[episode].actions[step])
    assert is_pad_BT.sum(axis=1).tolist() == [0, 0, HORIZON - 2, HORIZON - 1]


def test_tokens_are_those_of_the_chunks(tmp_path: Path) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("klt", dataset, num_tokens=4, levels=(5, 4))
    encoded = encode_chunks(tokenizer, dataset)
    assert len(encoded.tokens) == len(encoded.actions) == len(encoded.is_pad) == 1200
    assert torch.equal(encoded.tokens.ids, tokenizer.encode(encoded.actions).ids)


def test_no_tokens_decode_too(tmp_path: Path) -> None:
    dataset = walks(tmp_path)
    tokenizer = make_tokenizer("klt", dataset, num_tokens=4, levels=(5, 4))
    tokens = encode_chunks(tokenizer, dataset).tokens
    nothing_BTA = decode_prefix(tokenizer, tokens.prefix(0))
    assert torch.equal(nothing_BTA[0], nothing_BTA[-1]), "they say nothing about the chunk"
    decoded_BTA = tokenizer.decode(tokens, budget=2)
    assert torch.equal(decode_prefix(tokenizer, tokens.prefix(2)), decoded_BTA)
