"""What training changes in a module, and what it leaves as it was.

A checkpoint holds the first; of the second it holds a digest, so that a run goes on only on the
weights that it began on. With adapters on a backbone of billions of weights that is a hundredth.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from oatkit.storage.digest import digest

NUM_SAMPLES = 64
"""Number of values of each frozen tensor that its digest looks at."""


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The module's state without its frozen parameters: weights and all buffers, by name."""
    frozen = {name for name, _ in _frozen(module)}
    return {name: tensor for name, tensor in module.state_dict().items() if name not in frozen}


@torch.no_grad()
def frozen_digest(module: nn.Module) -> str | None:
    """Digest of names, shapes and some values of the frozen parameters; None if there are none.

    Values are sampled, because reading billions of them would take long. Weights must not be
    sharded yet.
    """
    parts = [
        part
        for name, parameter in _frozen(module)
        for part in (f"{name} {tuple(parameter.shape)}".encode(), _sample(parameter))
    ]
    return digest(*parts) if parts else None


def _frozen(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad:
            yield name, parameter


def _sample(parameter: Tensor) -> bytes:
    """Some values, evenly spread over the tensor; float32, which holds all shorter types."""
    flat = parameter.reshape(-1)
    places = torch.linspace(0, len(flat) - 1, min(len(flat), NUM_SAMPLES), dtype=torch.float64)
    values = flat[places.long().to(flat.device)].float().cpu()
    return values.numpy().tobytes()
