"""The optimizers: the command line and `TrainConfig` know those of this table.

A new optimizer is one file with a `torch.optim.Optimizer` and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import nn

from oatkit.train.soap import Soap


class MakeOptimizer(Protocol):
    """A class of optimizers, or a function that makes one.

    All that an optimizer remembers must be tensors in its `state`, `step` a scalar and the others
    of the parameter's shape or their own, because checkpoints hold tensors. The loop sets `lr` of
    every parameter group before each step.
    """

    def __call__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
    ) -> torch.optim.Optimizer:
        """An optimizer of the parameters; a flow expert may be added as a second group."""


@dataclass(frozen=True)
class OptimizerEntry:
    """What the name of an optimizer stands for.

    Attributes:
        make: Class or function that makes it.
        is_elementwise: Whether each weight is updated by itself, so that weights may be sharded.
    """

    make: MakeOptimizer
    is_elementwise: bool = True


OPTIMIZERS: dict[str, OptimizerEntry] = {
    # fused: one pass over all parameters
    "adamw": OptimizerEntry(partial(torch.optim.AdamW, fused=True)),
    "soap": OptimizerEntry(Soap, is_elementwise=False),
}
