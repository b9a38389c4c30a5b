"""The flow expert against a slow loop, and what its attention must and must not notice."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.flow_expert import AdaptiveNorm, ExpertLayer, FlowExpert, Memory, time_code

WIDTH, HEADS, KV_HEADS, HEAD = 12, 4, 2, 6
BATCH, CONTEXT, STEPS, ACTIONS = 2, 5, 3, 2


def rotary(first: int, count: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (B, T, C) of positions from `first` on, both halves of a head alike."""
    frequencies = 10.0 ** -torch.arange(HEAD // 2)
    angle = (first + torch.arange(count))[:, None] * frequencies.repeat(2)
    return tuple(part.expand(BATCH, -1, -1) for part in (angle.cos(), angle.sin()))


def make_memory(num_layers: int = 2) -> Memory:
    shape = (BATCH, KV_HEADS, CONTEXT, HEAD)
    pairs = [(torch.randn(shape), torch.randn(shape)) for _ in range(num_layers)]
    is_seen = torch.tensor([[True] * 5, [True, False, True, False, True]])
    return Memory(pairs, is_seen, rotary(CONTEXT, STEPS))


def make_expert() -> FlowExpert:
    torch.manual_seed(0)
    expert = FlowExpert(
        ACTIONS, width=WIDTH, num_layers=2, num_heads=HEADS, num_kv_heads=KV_HEADS, head_dim=HEAD
    )
    for parameter in expert.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return expert


def turned(head_C: Tensor, cos_C: Tensor, sin_C: Tensor) -> Tensor:
    """Pairs of numbers half a head apart, turned by their angle one by one."""
    found, half = head_C.clone(), HEAD // 2
    for i in range(half):
        a, b = head_C[i], head_C[i + half]
        found[i] = a * cos_C[i] - b * sin_C[i]
        found[i + half] = b * cos_C[i] + a * sin_C[i]
    return found


@torch.no_grad()
def test_a_layer_against_a_slow_loop() -> None:
    torch.manual_seed(0)
    layer, memory = ExpertLayer(WIDTH, HEADS, KV_HEADS, HEAD), make_memory(1)
    x, time = torch.randn(BATCH, STEPS, WIDTH), torch.randn(BATCH, WIDTH)
    for norm in (layer.norm_1, layer.norm_2):
        torch.nn.init.normal_(norm.modulate.weight, std=0.3)
    found = layer(x, time, memory.pairs[0], memory)
    first, second = layer.changes(time)
    (keys, values), (cos, sin) = memory.pairs[0], memory.rotary
    for row in range(BATCH):
        normed, gate = (y[row] for y in layer.norm_1(x, first))
        own_keys, own_values = layer.key_value(normed).chunk(2, dim=-1)
        seen = []
        for step in range(STEPS):
            heads = []
            for head in range(HEADS):
                group = head // (HEADS // KV_HEADS)
                part = slice(group * HEAD, (group + 1) * HEAD)
                query = layer.query(normed[step])[head * HEAD : (head + 1) * HEAD]
                query = turned(query, cos[row, step], sin[row, step])
                pairs = [
                    (keys[row, group, s], values[row, group, s])
                    for s in range(CONTEXT)
                    if memory.is_seen[row, s]
                ]
                pairs += [
                    (turned(own_keys[t, part], cos[row, t], sin[row, t]), own_values[t, part])
                    for t in range(STEPS)
                ]
                scores = torch.stack([query @ key for key, _ in pairs]) / math.sqrt(HEAD)
                share = scores.softmax(dim=0)
                heads.append(sum(a * value for a, (_, value) in zip(share, pairs, strict=True)))
            seen.append(layer.out(torch.cat(heads)))
        y = x[row] + gate * torch.stack(seen)
        normed, gate = (part[row] for part in layer.norm_2(y.expand(BATCH, -1, -1), second))
        wide, act = layer.widen(normed).chunk(2, dim=-1)
        y = y + gate * layer.narrow(wide * F.gelu(act, approximate="tanh"))
        torch.testing.assert_close(found[row], y)


@torch.no_grad()
def test_what_is_not_seen_is_not_noticed() -> None:
    expert, memory = make_expert(), make_memory()
    noisy, time = torch.randn(BATCH, STEPS, ACTIONS), torch.tensor([0.2, 0.9])
    before = expert(noisy, time, memory)
    assert before.shape == (BATCH, STEPS, ACTIONS)
    for slot, is_noticed in ((0, [True, True]), (1, [True, False])):
        pairs = [(keys.clone(), values.clone()) for keys, values in memory.pairs]
        for keys, values in pairs:
            keys[:, :, slot] += 1
            values[:, :, slot] -= 1
        after = expert(noisy, time, replace(memory, pairs=pairs))
        assert [bool((a != b).any()) for a, b in zip(after, before, strict=True)] == is_noticed


@torch.no_grad()
def test_only_the_distance_between_positions_counts() -> None:
    """Context keys and action slots moved on together give the same velocity."""
    expert, memory = make_expert(), make_memory()
    noisy, time = torch.randn(BATCH, STEPS, ACTIONS), torch.tensor([0.2, 0.9])
    wanted = expert(noisy, time, memory)
    cos, sin = rotary(7, 1)
    pairs = []
    for keys, values in memory.pairs:
        moved = [[[turned(k, cos[0, 0], sin[0, 0]) for k in head] for head in row] for row in keys]
        pairs.append(
            (torch.stack([torch.stack([torch.stack(h) for h in r]) for r in moved]), values)
        )
    later = Memory(pairs, memory.is_seen, rotary(CONTEXT + 7, STEPS))
    torch.testing.assert_close(expert(noisy, time, later), wanted, atol=1e-4, rtol=1e-4)
    far = replace(memory, rotary=rotary(CONTEXT + 7, STEPS))
    assert (expert(noisy, time, far) - wanted).abs().max() > 1e-3


def test_every_layer_needs_its_keys_and_values() -> None:
    with pytest.raises(ValueError, match="zip"):
        make_expert()(torch.randn(BATCH, STEPS, ACTIONS), torch.rand(BATCH), make_memory(1))


def test_a_norm_lets_all_through_before_training() -> None:
    x = torch.randn(2, 3, WIDTH)
    norm = AdaptiveNorm(WIDTH)
    normed, gate = norm(x, norm.modulate(torch.randn(2, WIDTH)))
    torch.testing.assert_close(normed.square().mean(dim=-1), torch.ones(2, 3))
    assert torch.equal(gate, torch.ones_like(gate))


@pytest.mark.parametrize("width", [8, 9])
def test_times_are_told_apart(width: int) -> None:
    times = torch.linspace(0, 1, 50)
    codes = time_code(times, width)
    assert codes.shape == (50, width)
    assert codes.abs().max() <= 1
    distance = torch.cdist(codes, codes) + 9 * torch.eye(50)
    assert distance.min() > 0.01
    slowest = 2 * math.pi * times / 4.0
    torch.testing.assert_close(codes[:, width // 2 - 1], slowest.sin())
