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
        num_context: Number of slots that a context takes, of which those that it does not have must
            be masked; as many as `before` has by default.

    Attributes:
        length: Number of slots that are in use.
    """

    def __init__(self, before: Pairs, max_slots: int, num_context: int | None = None) -> None:
        self._num_context = before[0][0].shape[2] if num_context is None else num_context
        num_slots = self._num_context + max_slots
        self._pairs = [tuple(_room(part, num_slots) for part in pair) for pair in before]
        self.restart(before)

    def restart(self, before: Pairs) -> None:
        """Take in another context; the slots that followed the last one are forgotten."""
        self.length = self._num_context
        for own, given in zip(self._pairs, before, strict=True):
            for room, part in zip(own, given, strict=True):
                room[:, :, : part.shape[2]] = part

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


def _room(like_BHSC: Tensor, num_slots: int) -> Tensor:
    """Zeros for so many slots: unlike what memory happens to hold, they vanish where masked."""
    return like_BHSC.new_zeros(*like_BHSC.shape[:2], num_slots, like_BHSC.shape[3])
