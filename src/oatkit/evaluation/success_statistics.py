"""Success rates with their intervals, and comparisons of two policies on the same episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from oatkit.types import (
    Budget,
    BudgetResult,
    EpisodeResult,
    PairedComparison,
    SuccessRate,
    TaskResult,
)

Z_95 = 1.959963984540054


def success_rate(successes: int, episodes: int) -> SuccessRate:
    """The rate with Wilson's 95 % score interval."""
    if not 0 <= successes <= episodes or episodes < 1:
        raise ValueError(f"{successes} successes in {episodes} episodes is no rate")
    rate, share = successes / episodes, Z_95**2 / episodes
    center = (rate + share / 2) / (1 + share)
    half = math.sqrt(rate * (1 - rate) * share + share**2 / 4) / (1 + share)
    low = 0.0 if successes == 0 else center - half
    high = 1.0 if successes == episodes else center + half
    return SuccessRate(successes, episodes, rate, low, high)


def compare_paired(
    first_name: str,
    second_name: str,
    first: Sequence[EpisodeResult],
    second: Sequence[EpisodeResult],
) -> PairedComparison | None:
    """Compare on the episodes that both have, of the same task and seed; None without any."""
    theirs = {(e.task, e.seed): e.is_success for e in second}
    pairs = [(e.is_success, theirs[e.task, e.seed]) for e in first if (e.task, e.seed) in theirs]
    return compare_pairs(first_name, second_name, pairs) if pairs else None


def compare_pairs(
    first_name: str, second_name: str, pairs: Sequence[tuple[bool, bool]]
) -> PairedComparison:
    """Compare by whether the first and the second solved each of the same episodes.

    The interval is Newcombe's for paired proportions (1998, method 10): Wilson's intervals of
    both rates, joined under the correlation of the pairs.
    """
    if not pairs:
        raise ValueError("there are no episodes to compare")
    both, only_first = pairs.count((True, True)), pairs.count((True, False))
    only_second, neither = pairs.count((False, True)), pairs.count((False, False))
    a, b = (success_rate(both + only, len(pairs)) for only in (only_first, only_second))
    phi = _correlation(both, only_first, only_second, neither)
    down = math.hypot(b.rate - b.low, a.high - a.rate)
    up = math.hypot(b.high - b.rate, a.rate - a.low)
    down_shared = 2 * phi * (b.rate - b.low) * (a.high - a.rate)
    up_shared = 2 * phi * (b.high - b.rate) * (a.rate - a.low)
    difference = b.rate - a.rate
    return PairedComparison(
        first_name,
        second_name,
        len(pairs),
        only_first,
        only_second,
        difference,
        difference - math.sqrt(max(0.0, down**2 - down_shared)),
        difference + math.sqrt(max(0.0, up**2 - up_shared)),
        mcnemar(only_first, only_second),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test: a fair coin for every pair that differs."""
    total = only_first + only_second
    tail = sum(math.comb(total, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / 2**total)


def _correlation(both: int, only_first: int, only_second: int, neither: int) -> float:
    """Phi with Newcombe's continuity correction, which makes a positive correlation weaker."""
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    if not margins:
        return 0.0
    excess = float(both * neither - only_first * only_second)
    if excess > 0:
        excess = max(0.0, excess - (both + only_first + only_second + neither) / 2)
    return excess / math.sqrt(margins)


def summarize(
    budget: Budget,
    episodes: Sequence[EpisodeResult],
    *,
    latency_ms: float | None,
    fps: float | None = None,
) -> BudgetResult:
    """Means over all episodes of one budget.

    Args:
        budget: Budget of the episodes.
        episodes: Episodes of all tasks.
        latency_ms: Time of a query for one observation alone.
        fps: Steps a second of the simulator.
    """
    by_task: dict[str, list[EpisodeResult]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task, []).append(episode)
    tasks = tuple(TaskResult(task, _rate(own), _score(own)) for task, own in by_task.items())
    asked = [episode for episode in episodes if episode.queries] or list(episodes)
    queries = sum(episode.queries for episode in episodes)
    steps_per_query = sum(episode.steps for episode in episodes) / queries if queries else None
    calls = fmean(episode.calls for episode in asked)
    return BudgetResult(
        budget=budget,
        tasks=tasks,
        success=_rate(episodes),
        mean_success=fmean(task.success.rate for task in tasks),
        score=_score(episodes),
        steps=fmean(episode.steps for episode in episodes),
        calls=calls,
        tokens=fmean(episode.tokens for episode in asked),
        latency_ms=latency_ms,
        steps_per_query=steps_per_query,
        calls_per_s=calls * fps / steps_per_query if fps and steps_per_query else None,
        seam_jump=_mean([episode.seam_jump for episode in episodes]),
        inner_jump=_mean([episode.inner_jump for episode in episodes]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of those that are there; None where none is."""
    found = [value for value in values if value is not None]
    return fmean(found) if found else None


def _rate(episodes: Sequence[EpisodeResult]) -> SuccessRate:
    return success_rate(sum(episode.is_success for episode in episodes), len(episodes))


def _score(episodes: Sequence[EpisodeResult]) -> float | None:
    """Mean of the best scores; it counts as 0 for an episode that ended before its first step."""
    if all(episode.score is None for episode in episodes):
        return None
    return fmean(episode.score or 0.0 for episode in episodes)
