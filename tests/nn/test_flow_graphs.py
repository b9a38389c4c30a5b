"""Integrating over fixed buffers equals integrating over new ones, whatever they held before."""

from __future__ import annotations

import gc
import weakref
from copy import deepcopy

import pytest
import torch

from oatkit.nn.captured_call import KEPT_SIZES, GraphPool
from oatkit.nn.flow_acting import ActingMemory, follow, integrate_expert, step_changes
from oatkit.nn.flow_expert import Memory
from oatkit.nn.flow_graphs import SLOTS_TOGETHER, FlowGraphs, padded_length
from tests.nn.graph_safety import GraphSafe
from tests.nn.test_flow_expert import ACTIONS, BATCH, CONTEXT, STEPS, make_expert, make_memory

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""Padding only changes the order in which attention adds up."""


def shortened(memory: Memory, num_slots: int) -> Memory:
    pairs = [(keys[:, :, :num_slots], values[:, :, :num_slots]) for keys, values in memory.pairs]
    return Memory(pairs, memory.is_seen[:, :num_slots], memory.rotary)


@torch.no_grad()
def test_other_inputs_and_other_lengths_in_the_same_buffers() -> None:
    expert = make_expert()
    graphs = FlowGraphs(expert, GraphPool())
    for number, memory in enumerate([make_memory(), make_memory(), shortened(make_memory(), 2)]):
        for num_steps in (2, 5):
            noise = torch.randn(BATCH, STEPS, ACTIONS)
            found = graphs.integrate(noise, memory, num_steps)
            wanted = integrate_expert(expert, noise, memory, num_steps)
            torch.testing.assert_close(found, wanted, **TOLERANCE, msg=f"context {number}")
            kept = found.clone()
            graphs.integrate(torch.randn_like(noise), make_memory(), num_steps)
            assert torch.equal(found, kept)  # a result is not the buffer of the next call


@torch.no_grad()
def test_changed_weights_are_captured_again() -> None:
    """On a GPU the changes of the norms are inputs of the graph, made by the weights of before."""
    expert, memory = make_expert(), make_memory()
    graphs, noise = FlowGraphs(expert, GraphPool()), torch.randn(BATCH, STEPS, ACTIONS)
    before = graphs.integrate(noise, memory, 2)
    expert.norm.modulate.bias += 0.5
    after = graphs.integrate(noise, memory, 2)
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, integrate_expert(expert, noise, memory, 2), **TOLERANCE)


@torch.no_grad()
def test_a_copy_captures_its_own() -> None:
    expert, memory = make_expert(), make_memory()
    graphs, noise = FlowGraphs(expert, GraphPool()), torch.randn(BATCH, STEPS, ACTIONS)
    wanted = graphs.integrate(noise, memory, 2)
    assert torch.equal(deepcopy(graphs).integrate(noise, memory, 2), wanted)


@torch.no_grad()
def test_of_many_batch_sizes_only_the_latest_are_kept() -> None:
    """On a GPU the buffers and graphs of every size that was ever asked for would fill it."""
    expert, memory = make_expert(), make_memory()
    graphs, made = FlowGraphs(expert, GraphPool()), []
    gc.disable()  # what is dropped is free at once, not when Python next looks for cycles
    try:
        for count in range(1, KEPT_SIZES + 4):
            rows = torch.zeros(count, dtype=torch.int64)
            pairs = [(keys[rows], values[rows]) for keys, values in memory.pairs]
            rotary = (memory.rotary[0][rows], memory.rotary[1][rows])
            many = Memory(pairs, memory.is_seen[rows], rotary)
            graphs.integrate(torch.randn(count, STEPS, ACTIONS), many, 2)
            made.append(weakref.ref(list(graphs._rooms.values())[-1].calls[2]))
        assert [call() is None for call in made] == [True] * 3 + [False] * KEPT_SIZES
    finally:
        gc.enable()


@torch.no_grad()
def test_autocast_is_left_to_the_plain_way() -> None:
    expert, memory = make_expert(), make_memory()
    noise = torch.randn(BATCH, STEPS, ACTIONS)
    with torch.autocast("cpu", torch.bfloat16):
        found = FlowGraphs(expert, GraphPool()).integrate(noise, memory, 2)
        assert torch.equal(found, integrate_expert(expert, noise, memory, 2))


@torch.no_grad()
def test_nothing_in_the_steps_reads_numbers_from_tensors() -> None:
    """On a GPU it would fail to be captured."""
    expert, memory = make_expert(), make_memory()
    room = ActingMemory(memory, padded_length(CONTEXT), torch.float32)
    changes, noise = step_changes(expert, 2), torch.randn(BATCH, STEPS, ACTIONS)
    with GraphSafe():
        follow(expert, noise, room, changes)
        with pytest.raises(AssertionError, match="_local_scalar_dense cannot be captured"):
            noise.sum().item()
        with pytest.raises(AssertionError, match="index of booleans"):
            noise[noise > 0]


def test_lengths_are_rounded_up() -> None:
    assert [padded_length(n) for n in (1, SLOTS_TOGETHER, SLOTS_TOGETHER + 1)] == [32, 32, 64]
