"""Keys and values that the layers of a language model read and extend.

Layers of `transformers` call `update` and read what it gives; nothing else of its own caches is
needed, and here nothing is written twice when a layer is computed again for its gradient.

Shape letters: B batch, H head, S slot that was seen before, G new slot, C head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Pairs = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of every layer, (B, H, S, C) each."""


class Noted:
    """Gives each layer the slots before, if any, with the new ones, and notes the new ones."""

    def __init__(self, before: Pairs | None = None) -> None:
        self._before = before
        self._noted: dict[int, tuple[Tensor, Tensor]] = {}

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        # a layer that is computed again in the backward pass must not replace its first result
        self._noted.setdefault(layer_idx, (keys, values))
        if self._before is None:
            return keys, values
        old_keys, old_values = self._before[layer_idx]
        return torch.cat([old_keys, keys], dim=2), torch.cat([old_values, values], dim=2)

    @property
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """The new keys and values of every layer."""
        return [self._noted[layer] for layer in sorted(self._noted)]


class Growing:
    """For generation: room for all slots is taken at once, and a call writes behind what is kept.

    Args:
        before: The context.
        room: How many slots may follow.
    """

    def __init__(self, before: Pairs, room: int) -> None:
        self.length = before[0][0].shape[2]
        self._pairs = [
            tuple(torch.cat([x, x.new_empty(*x.shape[:2], room, x.shape[3])], dim=2) for x in pair)
            for pair in before
        ]

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        end = self.length + keys.shape[2]
        all_keys, all_values = self._pairs[layer_idx]
        all_keys[:, :, self.length : end] = keys
        all_values[:, :, self.length : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]

    def keep(self, num_slots: int) -> None:
        """Let the first so many slots of the last call stay."""
        self.length += num_slots
