"""Random numbers of a batch, from one generator for all rows or one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Generators = torch.Generator | Sequence[torch.Generator] | None
"""One generator for the batch, one for each row (which then gets the same numbers in any batch), or
torch's own."""


def random_rows(
    sample: Callable[..., Tensor], generators: Generators, batch_size: int, *shape: int
) -> Tensor:
    """Random numbers, (B, *shape), by `torch.rand` or `torch.randn`."""
    if generators is None or isinstance(generators, torch.Generator):
        return sample(batch_size, *shape, generator=generators)
    if len(generators) != batch_size:
        raise ValueError(f"there are {len(generators)} generators for {batch_size} rows")
    return torch.stack([sample(*shape, generator=generator) for generator in generators])
