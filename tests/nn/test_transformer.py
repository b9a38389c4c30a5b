"""Transformer parts against torch's own attention and against slow loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.transformer import (
    CrossAttention,
    CrossDecoder,
    KeysValues,
    RegisterEncoder,
    SelfAttention,
    Transformer,
    causal_mask,
    drop,
    join_heads,
    sinusoids,
    split_heads,
)

WIDTH, HEADS = 12, 3


def torch_attention(query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> nn.Module:
    """The attention of torch with these weights."""
    attention = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([query, key, value]))
        attention.out_proj.weight.copy_(out)
    return attention


@torch.no_grad()
def test_self_attention_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours, x = SelfAttention(WIDTH, HEADS), torch.randn(2, 5, WIDTH)
    theirs = torch_attention(*ours.qkv.weight.chunk(3), ours.out.weight)
    normed, mask = ours.norm(x), causal_mask(5)
    wanted, _ = theirs(normed, normed, normed, attn_mask=~mask)
    torch.testing.assert_close(ours(x, mask), wanted)
    torch.testing.assert_close(ours(x, None), theirs(normed, normed, normed)[0])


@torch.no_grad()
def test_cross_attention_reads_the_keys_and_values_of_its_layer() -> None:
    torch.manual_seed(0)
    ours, source = KeysValues(WIDTH, HEADS, num_layers=2), torch.randn(2, 4, WIDTH)
    reading, queries = CrossAttention(WIDTH, HEADS), torch.randn(1, 3, WIDTH)
    normed = ours.norm(source)
    weights = ours.project.weight.split(WIDTH)
    for layer, (keys, values) in enumerate(ours(source)):
        key, value = weights[2 * layer : 2 * layer + 2]
        theirs = torch_attention(reading.query.weight, key, value, reading.out.weight)
        wanted, _ = theirs(reading.norm(queries).expand(2, -1, -1), normed, normed)
        torch.testing.assert_close(reading(queries, keys, values), wanted)


def influence(module: nn.Module, x: Tensor, *args: Tensor) -> Tensor:
    """(Q, Q) bool: whether the output of a slot (row) depends on the input of another (column)."""
    found = torch.autograd.functional.jacobian(lambda y: module(y, *args)[..., 0].sum(dim=0), x)
    return found.abs().sum(dim=(1, 3)) > 0


def test_slots_see_what_the_mask_allows() -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
    x, source = torch.randn(1, 3, WIDTH), torch.randn(2, 4, WIDTH)
    assert torch.equal(influence(Transformer(WIDTH, 1, HEADS, mask), x), mask)
    assert torch.equal(influence(RegisterEncoder(WIDTH, 2, HEADS, mask), x, source), mask)
    alone = torch.eye(3, dtype=torch.bool)
    assert torch.equal(influence(RegisterEncoder(WIDTH, 2, HEADS, None), x, source), alone)
    assert torch.equal(influence(CrossDecoder(WIDTH, 2, HEADS), x, source), alone)


@torch.no_grad()
@pytest.mark.parametrize("make", [CrossDecoder, lambda *s: RegisterEncoder(*s, causal_mask(3))])
def test_queries_of_one_row_read_every_row_of_the_source(make) -> None:
    torch.manual_seed(0)
    module, source = make(WIDTH, 2, HEADS), torch.randn(4, 5, WIDTH)
    queries = torch.randn(1, 3, WIDTH)
    together = module(queries, source)
    assert together.shape == (4, 3, WIDTH)
    apart = torch.cat([module(queries, row[None]) for row in source])
    torch.testing.assert_close(together, apart)
    assert (together[0] - together[1]).abs().max() > 1e-3


def test_heads_are_split_and_joined() -> None:
    x = torch.arange(2 * 3 * WIDTH).view(2, 3, WIDTH)
    heads = split_heads(x, HEADS)
    assert heads.shape == (2, HEADS, 3, WIDTH // HEADS)
    assert heads[1, 2, 0].tolist() == x[1, 0, 8:].tolist()
    assert torch.equal(join_heads(heads), x)


def test_sinusoids_against_a_slow_loop() -> None:
    found = sinusoids(5, 7)
    assert found.shape == (5, 7)
    for position in range(5):
        for place in range(7):
            angle = position / 10_000 ** ((place - place % 2) / 7)
            wanted = math.cos(angle) if place % 2 else math.sin(angle)
            assert float(found[position, place]) == pytest.approx(wanted, abs=1e-6)


def test_dropout_keeps_the_mean_and_needs_both_a_share_and_random() -> None:
    x = torch.ones(500, 40)
    random = SampleRandom(sample_keys(0, 0, torch.arange(500)))
    dropped = drop(x, 0.25, random)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(dropped.mean() - 1) < 0.01
    assert torch.equal(drop(x, 0.0, random), x)
    assert torch.equal(drop(x, 0.25, None), x)
