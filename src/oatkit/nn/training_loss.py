"""The loss that a training step minimizes, and the named numbers that explain it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class TrainingLoss:
    """A loss and its named parts, which are logged but not minimized.

    Attributes:
        total: The scalar that is minimized, the mean over the samples of a batch.
        parts: Tensor of each name, whose mean over all its values, steps and processes is logged.
            A part is a scalar, or has one value per sample; NaN marks a sample it says nothing of.
    """

    total: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)
