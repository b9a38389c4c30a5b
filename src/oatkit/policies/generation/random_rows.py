"""Random numbers of a batch, from one generator for all rows or one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

StartedGenerators = torch.Generator | list[torch.Generator] | None
Generators = torch.Generator | Sequence[torch.Generator] | Sequence[int] | None
"""One generator for the batch, one for each row (which then gets the same numbers in any batch) or
the seed of one for each row, or torch's own."""


def start_generators(given: Generators, seed: int | None = None) -> StartedGenerators:
    """The same with generators in place of seeds; what they have given is then not given again.

    Args:
        given: What a caller gave.
        seed: Seed of one generator for the batch, where the caller gave nothing.
    """
    if given is None:
        return None if seed is None else torch.Generator().manual_seed(seed)
    if isinstance(given, torch.Generator):
        return given
    return [
        one if isinstance(one, torch.Generator) else torch.Generator().manual_seed(one)
        for one in given
    ]


def random_rows(
    sample: Callable[..., Tensor], generators: Generators, batch_size: int, *shape: int
) -> Tensor:
    """Random numbers, (B, *shape), by `torch.rand` or `torch.randn`, on the generators' device."""
    started = start_generators(generators)
    if started is None:
        return sample(batch_size, *shape)
    if isinstance(started, torch.Generator):
        return sample(batch_size, *shape, generator=started, device=started.device)
    if len(started) != batch_size:
        raise ValueError(f"there are {len(started)} generators for {batch_size} rows")
    return torch.stack([sample(*shape, generator=g, device=g.device) for g in started])


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
    started = start_generators(generators)
    later = [_later(started, draw) for draw in range(1, num_draws)]
    own = [started, *later]
    return torch.cat([random_rows(sample, each, batch_size, *shape) for each in own])


def _later(generators: StartedGenerators, draw: int) -> StartedGenerators:
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
