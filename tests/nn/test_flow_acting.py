"""Acting by a flow expert equals calling the expert at every step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oatkit.nn.flow import euler_times, integrate
from oatkit.nn.flow_acting import (
    ActingMemory,
    compute_dtype,
    follow,
    integrate_expert,
    step_changes,
)
from oatkit.nn.flow_expert import FlowExpert, Memory
from tests.nn.test_flow_expert import ACTIONS, BATCH, CONTEXT, STEPS, make_expert, make_memory


def call_by_call(expert: FlowExpert, noise_BTA: Tensor, memory: Memory, num_steps: int) -> Tensor:
    """Velocities are computed as in training: the context is joined and the time encoded again."""
    times = euler_times(num_steps)
    return integrate(
        lambda point, step: expert(point, torch.full((BATCH,), times[step]), memory),
        noise_BTA,
        num_steps,
    )


@torch.no_grad()
@pytest.mark.parametrize("num_steps", [1, 3, 10])
def test_acting_equals_the_expert_called_at_every_step(num_steps: int) -> None:
    expert, memory = make_expert(), make_memory()
    noise = torch.randn(BATCH, STEPS, ACTIONS)
    wanted = call_by_call(expert, noise, memory, num_steps)
    found = integrate_expert(expert, noise, memory, num_steps)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_keys_of_bfloat16_are_cast_once_to_the_type_of_the_expert() -> None:
    """On a GPU each cast of a long context is a pass over its memory: one, not one a step."""
    expert, memory = make_expert(), make_memory()
    pairs = [(keys.bfloat16(), values.bfloat16()) for keys, values in memory.pairs]
    noise, halved = torch.randn(BATCH, STEPS, ACTIONS), Memory(pairs, memory.is_seen, memory.rotary)
    room = ActingMemory(halved, CONTEXT, compute_dtype(expert))
    assert {part.dtype for pair in room.pairs for part in pair} == {torch.float32}
    wanted = call_by_call(expert, noise, halved, 4)
    found = integrate_expert(expert, noise, halved, 4)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    expert.bfloat16()
    assert compute_dtype(expert) == torch.bfloat16
    rough = integrate_expert(expert, noise, halved, 4)
    assert rough.dtype == torch.float32  # the point itself, so that small steps are not lost
    torch.testing.assert_close(rough, wanted, rtol=0.1, atol=0.1)


@torch.no_grad()
def test_autocast_decides_the_type_of_the_context() -> None:
    expert = make_expert()
    with torch.autocast("cpu", torch.bfloat16):
        assert compute_dtype(expert) == torch.bfloat16
    assert compute_dtype(expert) == torch.float32


@torch.no_grad()
def test_room_for_more_slots_and_what_was_there_before_change_nothing() -> None:
    """The same buffers serve every observation, on a GPU as inputs of a captured graph."""
    expert, (first, second) = make_expert(), (make_memory(), make_memory())
    noise = torch.randn(BATCH, STEPS, ACTIONS)
    changes = step_changes(expert, 3)
    room = ActingMemory(first, CONTEXT + 4, torch.float32)
    for memory in (first, second, first):
        room.fill(memory)
        found = follow(expert, noise, room, changes)
        wanted = integrate_expert(expert, noise, memory, 3)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    short = Memory(
        [(keys[:, :, :2], values[:, :, :2]) for keys, values in first.pairs],
        first.is_seen[:, :2],
        first.rotary,
    )
    room.fill(short)
    wanted = integrate_expert(expert, noise, short, 3)
    torch.testing.assert_close(follow(expert, noise, room, changes), wanted, rtol=1e-4, atol=1e-5)
