"""Statistics of every dimension, with LeRobot's names; memory does not grow with the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

MAX_ROWS_FOR_QUANTILES = 2**16
"""Number of rows up to which quantiles are exact; of more rows a stratified sample is used."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of each dimension, (dim,) float64, over `count` rows; std is the population's."""

    min: NDArray[np.float64]
    max: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    q01: NDArray[np.float64]
    q99: NDArray[np.float64]
    count: int

    @property
    def dim(self) -> int:
        return len(self.min)

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """(dim,): which dimensions never change."""
        return self.min == self.max

    def to_json(self) -> dict[str, list[float]]:
        """The same as in LeRobot's `stats.json`, where the count is a list of one number."""
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "count"}
        return {k: v.tolist() for k, v in numbers.items()} | {"count": [self.count]}

    @classmethod
    def from_json(cls, values: Mapping[str, Sequence[float]]) -> Statistics:
        numbers = {
            f.name: np.asarray(values[f.name], np.float64) for f in fields(cls) if f.name != "count"
        }
        return cls(**numbers, count=int(values["count"][0]))


def compute_statistics(
    blocks: Callable[[], Iterable[NDArray[np.floating]]], *, dim: int
) -> Statistics:
    """Statistics over all rows of all blocks.

    min, max, mean and std are exact (float64, two passes, so that a large offset costs no
    digits). Quantiles: see `MAX_ROWS_FOR_QUANTILES`.

    Args:
        blocks: Function that gives all rows at every call, in arrays of (rows, dim).
        dim: Number of dimensions.
    """
    count = 0
    low, high = np.full(dim, np.inf), np.full(dim, -np.inf)
    total = np.zeros(dim)
    for block_NA in blocks():
        count += len(block_NA)
        low = np.minimum(low, block_NA.min(axis=0, initial=np.inf))
        high = np.maximum(high, block_NA.max(axis=0, initial=-np.inf))
        total += block_NA.sum(axis=0, dtype=np.float64)
    if count == 0:
        raise ValueError("statistics of no rows do not exist")
    # A mean of float32 rows may round past their extremes by one float64 ulp.
    mean = np.clip(total / count, low, high)
    squares = np.zeros(dim)
    for block_NA in blocks():
        squares += np.square(block_NA - mean).sum(axis=0)
    q01, q99 = _quantiles(blocks(), (0.01, 0.99), count=count, dim=dim)
    return Statistics(low, high, mean, np.sqrt(squares / count), q01, q99, count)


def _quantiles(
    blocks: Iterable[NDArray[np.floating]], quantiles: Sequence[float], *, count: int, dim: int
) -> NDArray[np.float64]:
    # One random row out of every `step`: an even stride would beat with the episodes' length.
    step = -(-count // MAX_ROWS_FOR_QUANTILES)
    offsets = np.random.default_rng(0).integers(step, size=-(-count // step))
    chosen = np.minimum(np.arange(len(offsets)) * step + offsets, count - 1)
    kept, row = [], 0
    for block_NA in blocks:
        first, end = np.searchsorted(chosen, [row, row + len(block_NA)])
        kept.append(block_NA[chosen[first:end] - row])
        row += len(block_NA)
    rows_NA = np.concatenate(kept)
    # One dimension at a time: np.quantile copies what it sorts.
    return np.stack([np.quantile(rows_NA[:, a], quantiles) for a in range(dim)], axis=1)
