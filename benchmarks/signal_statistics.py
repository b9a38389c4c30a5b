"""How well signals of a chunk say its error: rank correlations and explained variance, with
intervals over episodes.

Shape letters: N observation, S signal, E episode, R resampling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Numbers = NDArray[np.float64]
NUM_RESAMPLINGS = 1000
PERCENTILES = (2.5, 97.5)
LEAST = 1e-3
"""Smallest signal or error whose logarithm is taken: all below count as this."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, from episodes drawn with replacement."""

    value: float
    low: float
    high: float


def logarithm(values: Numbers) -> Numbers:
    """The natural logarithm, where small values count as the smallest that means something."""
    found: Numbers = np.log(np.maximum(values, LEAST))
    return found


def rank_correlation(first_N: Numbers, second_N: Numbers) -> float:
    """Spearman's correlation; 0 where one of the two never changes."""
    ranks = [rankdata(values_N) for values_N in (first_N, second_N)]
    if any(np.ptp(ranks_N) == 0 for ranks_N in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def out_of_fold(signals_NS: Numbers, error_N: Numbers, episode_N: NDArray[np.int64]) -> Numbers:
    """What linear least squares expect of each episode, fitted to the others.

    Args:
        signals_NS: What is known; no column stands for the mean alone.
        error_N: What is expected.
        episode_N: Episode of each observation; there are two or more.
    """
    given_NS = np.column_stack([np.ones(len(error_N)), signals_NS])
    expected_N = np.empty(len(error_N))
    for episode in np.unique(episode_N):
        is_out_N = episode_N == episode
        weights_S = np.linalg.lstsq(given_NS[~is_out_N], error_N[~is_out_N], rcond=None)[0]
        expected_N[is_out_N] = given_NS[is_out_N] @ weights_S
    return expected_N


def explained(error_N: Numbers, expected_N: Numbers, mean_N: Numbers) -> float:
    """Share of the variance that is explained: 1 is all, 0 as much as the mean of the other
    episodes explains, below 0 less."""
    return 1.0 - float(np.square(error_N - expected_N).sum() / np.square(error_N - mean_N).sum())


def resampled(
    statistic: Callable[[NDArray[np.int64]], float], episode_N: NDArray[np.int64], seed: int
) -> Estimate:
    """A statistic of all observations, and of those of as many episodes drawn with replacement.

    Args:
        statistic: Function from indices of observations to a number.
        episode_N: Episode of each observation.
        seed: Seed of the episodes that are drawn; the same ones for every statistic.
    """
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(episode_N == episode) for episode in np.unique(episode_N)]
    drawn_RE = rng.integers(len(rows), size=(NUM_RESAMPLINGS, len(rows)))
    found_R = [statistic(np.concatenate([rows[e] for e in drawn_E])) for drawn_E in drawn_RE]
    low, high = np.percentile(found_R, PERCENTILES)
    return Estimate(statistic(np.arange(len(episode_N))), float(low), float(high))


def correlations(
    signals: Mapping[str, Numbers], error_N: Numbers, episode_N: NDArray[np.int64], seed: int
) -> dict[str, Estimate]:
    """Signal to its rank correlation with the error."""

    def of(signal_N: Numbers) -> Callable[[NDArray[np.int64]], float]:
        return lambda rows: rank_correlation(signal_N[rows], error_N[rows])

    return {name: resampled(of(each_N), episode_N, seed) for name, each_N in signals.items()}


@dataclass(frozen=True)
class Explained:
    """What some signals explain together, and how much more than the first of all alone."""

    share: Estimate
    beyond_first: Estimate


def explained_shares(
    signals: Mapping[str, Numbers],
    sets: Sequence[Sequence[str]],
    error_N: Numbers,
    episode_N: NDArray[np.int64],
    seed: int,
) -> list[Explained]:
    """What each set of signals explains of the error, and what it adds to the first set.

    Logarithms of signals and error are regressed; every episode is expected from the others.

    Args:
        signals: Signals by name.
        sets: Names of the signals of each regression.
        error_N: The error.
        episode_N: Episode of each observation.
        seed: Seed of the intervals.
    """
    log_error_N = logarithm(error_N)
    mean_N = out_of_fold(np.empty((len(error_N), 0)), log_error_N, episode_N)

    def expected(names: Sequence[str]) -> Numbers:
        given_NS = np.column_stack([logarithm(signals[name]) for name in names])
        return out_of_fold(given_NS, log_error_N, episode_N)

    def share(expected_N: Numbers, rows: NDArray[np.int64]) -> float:
        return explained(log_error_N[rows], expected_N[rows], mean_N[rows])

    def compared(own_N: Numbers) -> Explained:
        return Explained(
            resampled(partial(share, own_N), episode_N, seed),
            resampled(lambda rows: share(own_N, rows) - share(first_N, rows), episode_N, seed),
        )

    first_N, *others = (expected(names) for names in sets)
    return [compared(own_N) for own_N in (first_N, *others)]
