"""What the loop trains: anything with a module, samples and a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss

Spread = Callable[[Callable[[int], Tensor], int], list[Tensor]]
"""Computes tensors by their numbers, each on one of the processes."""


class TrainingJob(Protocol):
    """A module, its samples and its loss."""

    @property
    def module(self) -> nn.Module:
        """What is trained, in place."""

    @property
    def num_samples(self) -> int:
        """Number of samples that `batch` can be asked for."""

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """The samples at `indices`, each tensor with the batch first."""

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The mean loss of the samples, and its parts, which are logged."""

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """What follows the optimizer's step; `gather` joins a tensor over all processes."""

    def evaluate(self, spread: Spread) -> dict[str, float]:
        """Numbers on held-out data, for the log, the same on all processes.

        `spread(compute, count)` gives the tensors `compute(0)` to `compute(count - 1)`, which must
        have one shape; processes share them. Sharded weights can be used nowhere else.
        """
