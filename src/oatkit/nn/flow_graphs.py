"""Integrates a flow expert over buffers that stay where they are, as CUDA graphs need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from oatkit.nn.captured_call import CapturedCall, GraphPool, latest
from oatkit.nn.flow_acting import ActingMemory, follow, integrate_expert, step_changes
from oatkit.nn.flow_expert import FlowExpert, Memory
from oatkit.nn.weight_versions import weight_versions

SLOTS_TOGETHER = 32
"""Contexts are padded to a multiple of so many slots, so that few lengths have to be captured."""


class FlowGraphs:
    """Does what `integrate_expert` does, by one captured call for all Euler steps.

    A call is captured for every batch size, padded context length and number of steps when it is
    first needed, and again when the weights have changed.

    Args:
        expert: Gives the velocities.
        pool: Memory of the captured calls.
    """

    def __init__(self, expert: FlowExpert, pool: GraphPool) -> None:
        self._expert, self._pool = expert, pool
        self._versions: list[tuple[int, int]] = []
        self._rooms: dict[tuple[int, int, int], _Room] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: graphs cannot be copied, so it captures its own."""
        return {"_expert": self._expert, "_pool": self._pool, "_versions": [], "_rooms": {}}

    @torch.inference_mode()
    def integrate(self, noise_BTA: Tensor, memory: Memory, num_steps: int) -> Tensor:
        """Chunks (B, T, A), reached from noise in Euler steps; see `integrate_expert`."""
        if torch.is_autocast_enabled(noise_BTA.device.type):  # its casts would be lost in a graph
            return integrate_expert(self._expert, noise_BTA, memory, num_steps)
        versions = weight_versions(self._expert.parameters())
        if versions != self._versions:
            self._rooms, self._versions = {}, versions
        size = (len(noise_BTA), padded_length(memory.is_seen.shape[1]), noise_BTA.shape[-1])
        room = latest(
            self._rooms,
            size,
            lambda: _Room(
                torch.empty_like(noise_BTA), ActingMemory(memory, size[1], self._expert.dtype), {}
            ),
            self._pool.num_sizes,
        )
        room.noise.copy_(noise_BTA)
        room.memory.fill(memory)
        if num_steps not in room.calls:
            room.calls[num_steps] = self._capture(room.noise, room.memory, num_steps)
        return room.calls[num_steps]()

    def _capture(self, noise_BTA: Tensor, memory: ActingMemory, num_steps: int) -> CapturedCall:
        expert, changes = self._expert, step_changes(self._expert, num_steps)
        return self._pool.capture(
            lambda: follow(expert, noise_BTA, memory, changes), noise_BTA.device
        )


@dataclass(frozen=True)
class _Room:
    """Buffers for inputs of one size, and the calls that read them, by number of steps."""

    noise: Tensor
    memory: ActingMemory
    calls: dict[int, CapturedCall]


def padded_length(num_slots: int) -> int:
    """Number of slots of a context after padding."""
    return -(-num_slots // SLOTS_TOGETHER) * SLOTS_TOGETHER
