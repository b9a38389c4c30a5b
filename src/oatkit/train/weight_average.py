"""A moving average of the trained weights, which are less noisy than those of any one step.

Frozen weights and buffers have no average: they are what the module holds. A codebook that revives
its dead codes has no meaningful one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from oatkit.train.trained_state import trained_parameters


def begin_average(module: nn.Module) -> dict[str, Tensor]:
    """The average before the first step: the weights themselves, by name."""
    parameters = trained_parameters(module)
    return {name: parameter.detach().clone() for name, parameter in parameters.items()}


@torch.no_grad()
def move_average(average: Mapping[str, Tensor], module: nn.Module, decay: float, step: int) -> None:
    """Move the average towards the current weights; faster at first, to forget the start soon."""
    decay = min(decay, (1 + step) / (10 + step))
    parameters = trained_parameters(module)
    weights = [parameters[name].detach() for name in average]
    torch._foreach_lerp_(list(average.values()), weights, 1 - decay)


@torch.no_grad()
def use_average(average: Mapping[str, Tensor], module: nn.Module) -> None:
    """Make the average the weights of the module."""
    parameters = trained_parameters(module)
    for name, tensor in average.items():
        parameters[name].copy_(tensor)
