"""How well signals of a chunk say its error: rank correlations, explained variance, and what is
saved by deciding from them how much to execute; with intervals over episodes.

Shape letters: N observation, T step in the chunk, S signal, E episode, R resampling or its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from oatkit.policies.generation.auto_execution import AutoExecution

Numbers = NDArray[np.float64]
Statistic = Callable[[NDArray[np.int64]], float]
"""A function from indices of observations to a number."""
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


def resampled(statistic: Statistic, episode_N: NDArray[np.int64], seed: int) -> Estimate:
    """A statistic of all observations, and of those of as many episodes drawn with replacement.

    Args:
        statistic: What is counted.
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

    def of(signal_N: Numbers) -> Statistic:
        return lambda rows: rank_correlation(signal_N[rows], error_N[rows])

    return {name: resampled(of(each_N), episode_N, seed) for name, each_N in signals.items()}


@dataclass(frozen=True)
class Compared:
    """What some signals come to, and how much more than the first of all that is."""

    value: Estimate
    beyond_first: Estimate


def compared(
    statistics: Sequence[Statistic], episode_N: NDArray[np.int64], seed: int
) -> list[Compared]:
    """Each statistic, and what it has beyond the first, on the same drawn episodes."""
    first = statistics[0]

    def beyond(own: Statistic) -> Statistic:
        return lambda rows: own(rows) - first(rows)

    return [
        Compared(resampled(own, episode_N, seed), resampled(beyond(own), episode_N, seed))
        for own in statistics
    ]


def explained_shares(
    expected: Sequence[Numbers], error_N: Numbers, episode_N: NDArray[np.int64], seed: int
) -> list[Compared]:
    """Share of the variance of the error that is explained by what was expected.

    Args:
        expected: The error as each of several sets of signals has it, from `expected_error`.
        error_N: The error.
        episode_N: Episode of each observation.
        seed: Seed of the intervals.
    """
    log_error_N = logarithm(error_N)
    mean_N = out_of_fold(np.empty((len(error_N), 0)), log_error_N, episode_N)

    def share(own_N: Numbers, rows: NDArray[np.int64]) -> float:
        return explained(log_error_N[rows], own_N[rows], mean_N[rows])

    return compared([partial(share, own_N) for own_N in expected], episode_N, seed)


def expected_error(
    signals: Sequence[Numbers], error_N: Numbers, episode_N: NDArray[np.int64]
) -> Numbers:
    """The logarithm of the error by a regression on those of signals, every episode expected from
    the others."""
    given_NS = np.column_stack([logarithm(signal_N) for signal_N in signals])
    return out_of_fold(given_NS, logarithm(error_N), episode_N)


def steps_by(
    signal_N: Numbers, error_NT: Numbers, episode_N: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers of steps to execute by tables of a signal, those of an episode by the others.

    Args:
        signal_N: What chunks are sorted by, where tables of policies have the entropy.
        error_NT: Error of each step of each chunk.
        episode_N: Episode of each observation.
    """
    steps_N = np.empty(len(signal_N), np.int64)
    for episode in np.unique(episode_N):
        is_out_N = episode_N == episode
        fitted = AutoExecution.fit(signal_N[~is_out_N], error_NT[~is_out_N])
        steps_N[is_out_N] = fitted.steps(torch.from_numpy(signal_N[is_out_N])).numpy()
    return steps_N


def saved_shares(
    steps: Sequence[NDArray[np.int64]],
    error_NT: Numbers,
    episode_N: NDArray[np.int64],
    seed: int,
) -> list[Compared]:
    """Share of the error of executed steps that is saved by who decides their number.

    The same numbers of steps for any chunks, regardless of what is known of them, save 0.

    Args:
        steps: Numbers of steps (N,) of each of several deciders.
        error_NT: Error of each step of each chunk.
        episode_N: Episode of each observation.
        seed: Seed of the intervals.
    """

    def saved(own_N: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
        error_RT = error_NT[rows]
        is_executed_RT = np.arange(error_RT.shape[1]) < own_N[rows][:, None]
        executed = (error_RT * is_executed_RT).mean()
        return 1.0 - float(executed / (error_RT.mean(axis=0) * is_executed_RT.mean(axis=0)).mean())

    return compared([partial(saved, own_N) for own_N in steps], episode_N, seed)
