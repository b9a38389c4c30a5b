"""A batch of observations as tensors, as policies compute with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

STATE_LIMIT = 3.0
"""Largest normalized state that networks read; those of the training data are within 1. A dimension
that hardly moved in training is divided by hardly anything: a nudge would be read as hundreds, and
drown all others."""


@dataclass(frozen=True, eq=False)
class Observations:
    """A batch of observations, which a policy's `read` makes.

    Attributes:
        task: (B,) int64, index among the known tasks; (B, L) ids of the text, -1 after their end,
            where a policy reads text.
        state: (B, frames, state_dim) float32, normalized; state_dim is 0 without a state.
        images: (B, frames, 3, H, W) for each camera, uint8 or float from 0 to 1.
        is_seen: (B, frames, cameras) bool, False where an image is missing.
        is_single_frame: Whether this is one frame, given without batch and history: a policy then
            adds the frames before it, and answers without a batch axis.
    """

    task: Tensor
    state: Tensor
    images: tuple[Tensor, ...]
    is_seen: Tensor
    is_single_frame: bool = False

    def __len__(self) -> int:
        """The number of observations."""
        return len(self.task)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Equal for observations that `cat` can put into one batch."""
        _, *others = self.tensors()
        return tuple((part.shape[1:], part.dtype) for part in others)

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, the batch first in each."""
        return (self.task, self.state, self.is_seen, *self.images)

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> Observations:
        """The inverse of `tensors`."""
        task, state, is_seen, *images = tensors
        return cls(task, state, tuple(images), is_seen)

    def to(self, device: torch.device) -> Observations:
        """The same batch on a device."""
        return self.from_tensors([tensor.to(device) for tensor in self.tensors()])

    def split(self, num_rows: int) -> list[Observations]:
        """Successive batches of at most `num_rows` observations."""
        parts = zip(*(torch.split(tensor, num_rows) for tensor in self.tensors()), strict=True)
        return [self.from_tensors(part) for part in parts]

    @classmethod
    def cat(cls, batches: Sequence[Observations]) -> Observations:
        """One batch of several; texts become as long as the longest."""
        tasks = [batch.task for batch in batches]
        if tasks[0].ndim > 1:
            longest = max(task.shape[1] for task in tasks)
            tasks = [F.pad(task, (0, longest - task.shape[1]), value=-1) for task in tasks]
        return cls.from_tensors([torch.cat(tasks), *_joined(batches, dim=0)])

    @classmethod
    def from_frames(cls, frames: Sequence[Observations]) -> Observations:
        """Observations whose history are these frames, the latest last; its task counts."""
        return cls.from_tensors([frames[-1].task, *_joined(frames, dim=1)])


def _joined(parts: Sequence[Observations], dim: int) -> list[Tensor]:
    """All tensors but the tasks, concatenated; those of different types are an error."""
    others = list(zip(*(part.tensors()[1:] for part in parts), strict=True))
    for tensors in others:
        types = sorted({str(tensor.dtype) for tensor in tensors})
        if len(types) > 1:
            raise ValueError(f"observations of {' and '.join(types)} cannot be joined: use one")
    return [torch.cat(tensors, dim=dim) for tensors in others]
