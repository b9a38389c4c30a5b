"""Random numbers of a batch, from one generator for all rows or one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
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


def random_draws(
    sample: Callable[..., Tensor],
    generators: Generators,
    batch_size: int,
    num_draws: int,
    *shape: int,
) -> Tensor:
    """Random numbers of several draws for each row, (draws * B, *shape), draw after draw.

    The first draw has those of `random_rows`; the others have numbers of their own, which depend on
    the state of the generators and are not taken from them.
    """
    if num_draws < 1:
        raise ValueError(f"draws is {num_draws}, expected 1 or more")
    later = [_later(generators, draw) for draw in range(1, num_draws)]
    own = [generators, *later]
    return torch.cat([random_rows(sample, each, batch_size, *shape) for each in own])


def _later(generators: Generators, draw: int) -> Generators:
    """The generators of another draw; torch's own goes on."""
    if generators is None:
        return None
    if not isinstance(generators, torch.Generator):
        return [_branch(generator, draw) for generator in generators]
    return _branch(generators, draw)


def _branch(generator: torch.Generator, draw: int) -> torch.Generator:
    entropy = (crc32(generator.get_state().numpy().tobytes()), draw)
    seed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
    return torch.Generator(generator.device).manual_seed(int(seed) >> 1)
