"""Integrates a flow expert over buffers that stay where they are, as CUDA graphs need it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from oatkit.nn.captured_call import CapturedCall
from oatkit.nn.decoder_backend import weight_versions
from oatkit.nn.flow_acting import ActingMemory, follow, integrate_expert, step_changes
from oatkit.nn.flow_expert import FlowExpert, Memory

SLOTS_TOGETHER = 32
"""Contexts are padded to a multiple of so many slots, so that few lengths have to be captured."""


class FlowGraphs:
    """Does what `integrate_expert` does, by one captured call for all Euler steps.

    A call is captured for every batch size, padded context length and number of steps when it is
    first needed, and again when the weights have changed.

    Args:
        expert: Gives the velocities.
    """

    def __init__(self, expert: FlowExpert) -> None:
        self._expert = expert
        self._versions: list[tuple[int, int]] = []
        self._rooms: dict[tuple[int, int], tuple[Tensor, ActingMemory]] = {}
        self._calls: dict[tuple[int, int, int], CapturedCall] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: graphs cannot be copied, so it captures its own."""
        return {"_expert": self._expert, "_versions": [], "_rooms": {}, "_calls": {}}

    @torch.inference_mode()
    def integrate(self, noise_BTA: Tensor, memory: Memory, num_steps: int) -> Tensor:
        """Chunks (B, T, A), reached from noise in Euler steps; see `integrate_expert`."""
        if torch.is_autocast_enabled(noise_BTA.device.type):  # its casts would be lost in a graph
            return integrate_expert(self._expert, noise_BTA, memory, num_steps)
        versions = weight_versions(self._expert.parameters())
        if versions != self._versions:
            self._rooms, self._calls, self._versions = {}, {}, versions
        size = (len(noise_BTA), padded_length(memory.is_seen.shape[1]))
        if size not in self._rooms:
            room = ActingMemory(memory, size[1], self._expert.dtype)
            self._rooms[size] = (torch.empty_like(noise_BTA), room)
        noise, room = self._rooms[size]
        noise.copy_(noise_BTA)
        room.fill(memory)
        key = (*size, num_steps)
        if key not in self._calls:
            changes = step_changes(self._expert, num_steps)
            self._calls[key] = CapturedCall(
                lambda: follow(self._expert, noise, room, changes), noise.device
            )
        return self._calls[key]().clone()


def padded_length(num_slots: int) -> int:
    """Number of slots of a context after padding."""
    return -(-num_slots // SLOTS_TOGETHER) * SLOTS_TOGETHER
