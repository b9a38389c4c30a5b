from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from oatkit.evaluation.success_statistics import (
    compare_paired,
    compare_pairs,
    mcnemar,
    success_rate,
    summarize,
)
from oatkit.types import EpisodeResult


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_scipys(counts: tuple[int, int]) -> None:
    successes, episodes = counts
    found = success_rate(successes, episodes)
    wanted = stats.binomtest(successes, episodes).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert 0 <= found.low <= found.rate <= found.high <= 1


def test_wilson_has_the_values_of_the_textbooks() -> None:
    found = success_rate(81, 263)  # Newcombe 1998, table I
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    found = success_rate(0, 20)
    assert (found.low, round(found.high, 4)) == (0, 0.1611)


def test_wilson_covers_the_true_rate() -> None:
    """Over all outcomes of 50 episodes, weighted by their probability, at many rates."""
    rates = [success_rate(k, 50) for k in range(51)]
    coverage = []
    for p in np.linspace(0.05, 0.95, 91):
        inside = [r.low <= p <= r.high for r in rates]
        coverage.append(stats.binom.pmf(np.arange(51), 50, p) @ inside)
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.01)
    assert min(coverage) > 0.9


@pytest.mark.parametrize("counts", [(3, 2), (-1, 5), (0, 0)])
def test_no_rate(counts: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is no rate"):
        success_rate(*counts)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_the_binomial_test(first: int, second: int) -> None:
    wanted = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(wanted)


def episode(seed: int, is_success: bool, *, task: str = "near", **changed: object) -> EpisodeResult:
    values: dict[str, object] = {
        **{"task": task, "budget": 4, "episode": seed // 2, "seed": seed, "is_success": is_success},
        **{"score": None, "steps": 10, "queries": 2, "calls": 3.0, "tokens": 4.0},
        **{"latency_ms": 5.0, "clipped": 0.0, "repeats": 0, "error": None, **changed},
    }
    return EpisodeResult(**values)  # type: ignore[arg-type]


def pairs(both: int, only_first: int, only_second: int, neither: int) -> tuple[list, list]:
    outcomes = (
        [(True, True)] * both
        + [(True, False)] * only_first
        + [(False, True)] * only_second
        + [(False, False)] * neither
    )
    first = [episode(seed, a) for seed, (a, _) in enumerate(outcomes)]
    return first, [episode(seed, b) for seed, (_, b) in enumerate(outcomes)]


def test_no_pairs_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="there are no episodes to compare"):
        compare_pairs("a", "b", [])
    assert compare_paired("a", "b", [episode(0, True)], [episode(1, True)]) is None


def test_only_episodes_of_the_same_task_and_seed_are_compared() -> None:
    first, second = pairs(10, 1, 5, 4)
    more = [episode(99, True), episode(0, True, task="far")]
    found = compare_paired("a", "b", first + more, second)
    assert found is not None
    assert (found.episodes, found.only_first, found.only_second) == (20, 1, 5)
    assert found.difference == pytest.approx(0.2)
    assert found.low < 0.2 < found.high
    assert found.p_value == pytest.approx(stats.binomtest(1, 6).pvalue)
    turned = compare_paired("b", "a", second, first)
    assert turned is not None
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert compare_paired("a", "b", first, more[:1]) is None


def test_the_paired_interval_covers_the_true_difference() -> None:
    """Over all tables of 20 pairs, weighted by their probability."""
    n = 20
    tables = [t for t in itertools.product(range(n + 1), repeat=3) if sum(t) <= n]
    found = []
    for both, first, second in tables:
        compared = compare_paired("a", "b", *pairs(both, first, second, n - both - first - second))
        assert compared is not None
        found.append((compared.low, compared.high))
    counts = np.array([(*t, n - sum(t)) for t in tables])
    for p in ((0.5, 0.1, 0.2, 0.2), (0.2, 0.05, 0.25, 0.5), (0.6, 0.15, 0.15, 0.1)):
        weights = stats.multinomial.pmf(counts, n, p)
        inside = [low <= p[2] - p[1] <= high for low, high in found]
        assert 0.93 < weights @ inside < 0.995


def test_identical_outcomes_do_not_differ() -> None:
    found = compare_paired("a", "b", *pairs(30, 0, 0, 20))
    assert found is not None
    assert (found.difference, found.p_value) == (0, 1)
    assert -0.1 < found.low <= 0 <= found.high < 0.1


def test_the_mean_counts_every_task_the_same() -> None:
    episodes = [
        episode(1, True, score=1.0),
        *(episode(s, False, task="far", score=0.5) for s in (1, 3, 5)),
    ]
    found = summarize(4, episodes, latency_ms=2.0)
    assert [(t.task, t.success.successes, t.success.episodes) for t in found.tasks] == [
        ("near", 1, 1),
        ("far", 0, 3),
    ]
    assert (found.mean_success, found.success.rate) == (0.5, 0.25)
    assert (found.score, found.tokens, found.calls, found.latency_ms) == (0.625, 4, 3, 2)


def test_an_episode_without_a_step_scores_nothing() -> None:
    scored, failed = episode(1, True, score=0.8), episode(3, False, steps=0, error="no chunk")
    assert summarize(4, [scored, failed], latency_ms=None).score == 0.4
    assert summarize(4, [failed], latency_ms=None).score is None


def test_steps_and_calls_are_those_of_all_queries() -> None:
    long, short = episode(1, False, steps=60), episode(3, True, steps=20)
    found = summarize(
        4, [replace(long, queries=9), replace(short, queries=1)], latency_ms=1, fps=80
    )
    assert found.steps_per_query == 8
    assert found.calls_per_s == 3 * 80 / 8
    assert summarize(4, [replace(long, queries=0)], latency_ms=None).steps_per_query is None


def test_jumps_are_means_over_the_episodes_that_have_some() -> None:
    jumps = [(0.2, 0.1), (0.4, None), (None, None)]
    episodes = [
        replace(episode(seed, True), seam_jump=seam, inner_jump=inner)
        for seed, (seam, inner) in enumerate(jumps)
    ]
    found = summarize(4, episodes, latency_ms=None)
    assert (found.seam_jump, found.inner_jump) == (pytest.approx(0.3), 0.1)
    assert summarize(4, episodes[2:], latency_ms=None).seam_jump is None
