"""Batches in parts, and sequences of different lengths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from oatkit.tokenizers.codec import (
    CPU_PART,
    PART,
    decode_in_parts,
    doubling,
    encode_in_parts,
    spread_blocks,
    tokens_of_lists,
)
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import make


@torch.no_grad()
@pytest.mark.parametrize(("name", "part"), [("oat", CPU_PART), ("klt", PART)])
def test_large_batches_in_parts_give_the_same(name: str, part: int) -> None:
    codec, count = make(name).codec, 2 * part + 3
    actions = torch.rand(count, codec.config.horizon, codec.config.action_dim)
    whole, in_parts = codec.encode(actions), encode_in_parts(codec, actions)
    assert (whole.ids == in_parts.ids).float().mean() > 0.99
    tokens = Tokens(whole.ids, torch.arange(count) % 9)
    torch.testing.assert_close(decode_in_parts(codec, tokens), codec.decode(tokens))


def test_parts_of_different_lengths_are_padded() -> None:
    codec = make("fast").codec
    flat, steep = torch.zeros(PART, 8, 3), torch.rand(3, 8, 3) * 2 - 1
    tokens = encode_in_parts(codec, torch.cat([flat, steep]))
    assert tokens.lengths[0] < tokens.lengths[-1] <= tokens.ids.shape[1]
    assert (
        tokens.ids[-1, : tokens.lengths[-1]].tolist()
        == codec.encode(steep).ids[-1, : tokens.lengths[-1]].tolist()
    )


def test_lists_become_one_batch() -> None:
    tokens = tokens_of_lists([[3, 1], [], [2, 2, 2]])
    assert tokens.ids.tolist() == [[3, 1, 0], [0, 0, 0], [2, 2, 2]]
    assert tokens.lengths.tolist() == [2, 0, 3]
    assert tokens_of_lists([]).ids.shape == (0, 0)


def test_doubling_ends_at_the_number_itself() -> None:
    assert [doubling(n) for n in (1, 8, 12)] == [(1,), (1, 2, 4, 8), (1, 2, 4, 8, 12)]


class _Elsewhere(nn.Module):
    """A codec whose weights are on another device; it answers from there, as a GPU would."""

    config = SimpleNamespace(horizon=4, action_dim=3)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(1, device="meta"))
        self.devices: list[str] = []

    def encode(self, actions_BTA: Tensor) -> Tokens:
        self.devices.append(actions_BTA.device.type)
        return Tokens.full(torch.zeros(len(actions_BTA), 2, dtype=torch.int64))

    def decode(self, tokens: Tokens) -> Tensor:
        self.devices += [tokens.ids.device.type, tokens.lengths.device.type]
        return torch.zeros(len(tokens), 4, 3)


def test_batches_go_to_the_device_of_the_codec() -> None:
    """A tokenizer on a GPU got chunks and tokens of the CPU, which torch refuses."""
    codec: Any = _Elsewhere()
    tokens = encode_in_parts(codec, torch.rand(5, 4, 3))
    assert decode_in_parts(codec, tokens).device.type == "cpu"
    assert codec.devices == ["meta", "meta", "meta"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 20))
def test_spread_blocks_are_every_so_many_of_all_chunks(sizes: list[int], step: int) -> None:
    whole = torch.arange(sum(sizes))
    found = list(spread_blocks(torch.split(whole, sizes), step))
    assert torch.cat(found).tolist() == whole[::step].tolist()
    assert all(len(part) for part in found)
