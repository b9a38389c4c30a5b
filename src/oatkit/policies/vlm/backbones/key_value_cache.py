"""Caches of keys and values that the layers of a language model read and extend.

A layer of `transformers` calls `update` with its new keys and values and attends to those that it
gets back. It needs nothing else of a cache. Unlike the caches of `transformers`, these stay right
when a layer is computed a second time for its gradient.

Shape letters: B batch, H head, S slot before, G new slot, C head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Pairs = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of every layer, (B, H, S, C) each."""


class RecordingCache:
    """Records the new keys and values of one pass.

    Args:
        before: Keys and values of the slots before, if any; they are not changed.
    """

    def __init__(self, before: Pairs | None = None) -> None:
        self._before = before
        self._recorded: dict[int, tuple[Tensor, Tensor]] = {}

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S + G, C) that a layer attends to, given its new ones."""
        # a layer that is computed again in the backward pass must not replace its first result
        self._recorded.setdefault(layer_idx, (keys, values))
        if self._before is None:
            return keys, values
        old_keys, old_values = self._before[layer_idx]
        return torch.cat([old_keys, keys], dim=2), torch.cat([old_values, values], dim=2)

    @property
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """New keys and values (B, H, G, C) of every layer."""
        return [self._recorded[layer] for layer in sorted(self._recorded)]


class GrowingCache:
    """Cache of generation: memory for all slots is allocated once, and every pass appends to it.

    Args:
        before: Keys and values of the context.
        max_slots: Maximum number of slots that may follow the context.
    """

    def __init__(self, before: Pairs, max_slots: int) -> None:
        self.length = before[0][0].shape[2]
        self._pairs = [tuple(_with_room(part, max_slots) for part in pair) for pair in before]

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S + G, C) that a layer attends to, given its new ones."""
        end = self.length + keys.shape[2]
        all_keys, all_values = self._pairs[layer_idx]
        all_keys[:, :, self.length : end] = keys
        all_values[:, :, self.length : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def keep(self, num_slots: int) -> None:
        """Keep the first slots of the last pass; the next pass overwrites the others."""
        self.length += num_slots


def _with_room(x_BHSC: Tensor, num_slots: int) -> Tensor:
    """The same with further slots that hold nothing yet."""
    room = x_BHSC.new_empty(*x_BHSC.shape[:2], num_slots, x_BHSC.shape[3])
    return torch.cat([x_BHSC, room], dim=2)
