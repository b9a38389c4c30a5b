"""Modules that are made without memory for their weights, and get those of an artifact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

WITHOUT_MEMORY = (torch.empty, torch.rand, torch.randn)
"""Functions that make tensors whose numbers mean nothing or are random: all weights begin so."""


class WithoutWeights(TorchFunctionMode):
    """While it is entered, modules are made without memory for their weights.

    What begins empty or random is on the meta device, where initializing costs nothing and takes no
    random numbers. All else, such as masks and the frequencies of rotary positions, is computed as
    ever, because an artifact does not hold it.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, with its result on the meta device where it means nothing."""
        settings = kwargs or {}
        if func in WITHOUT_MEMORY:
            settings = {**settings, "device": "meta"}
        return func(*args, **settings)


def place_weights(
    module: nn.Module,
    state: dict[str, Tensor],
    *,
    dtype: torch.dtype | None,
    device: torch.device,
    float32: Collection[str] = (),
) -> None:
    """Give a module weights, cast and moved one at a time.

    They are copied, so that neither training nor a change of the file that they come from reaches
    the other.

    Args:
        module: Module, made in `WithoutWeights` or not.
        state: Tensors by name, which are taken out one after the other.
        dtype: Type of the weights; that which the module gives each by default.
        device: Where the module goes.
        float32: Names of the parts of the module that stay float32 whatever `dtype` says.
    """
    own: Mapping[str, Tensor] = dict(module.named_parameters())
    placed: dict[str, Tensor] = {}
    for name in list(state):
        tensor, wanted = state.pop(name), None
        if name in own:
            is_kept = dtype is None or name.split(".")[0] in float32
            wanted = own[name].dtype if is_kept else dtype
        placed[name] = tensor.to(device, wanted, copy=True)
    module.load_state_dict(placed, assign=True)
    module.to(device)  # what is no part of the state
