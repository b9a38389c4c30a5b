"""Averages and ranks over benchmarks, as the paper's tables have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.evaluation.benchmark_statistics import average_ranks, benchmark_rows, pooled_success
from oatkit.evaluation.success_statistics import success_rate
from oatkit.types import BenchmarkEvaluation, BenchmarkPart, Budget, TaskResult


def record(
    policy: str,
    benchmark: str,
    budget: Budget,
    *successes: int,
    episodes: int = 50,
    is_row: bool | None = True,
) -> BenchmarkEvaluation:
    """An evaluation with one part of so many tasks."""
    rates = [success_rate(count, episodes) for count in successes]
    tasks = tuple(TaskResult(f"t{i}", rate, score=None) for i, rate in enumerate(rates))
    whole = success_rate(sum(successes), episodes * len(successes))
    mean = sum(rate.rate for rate in rates) / len(rates)
    parts = (BenchmarkPart("all", tasks, whole),)
    return BenchmarkEvaluation(
        policy,
        benchmark,
        {"budget": budget},
        {},
        parts=parts,
        mean_success=mean,
        is_paper_row=is_row,
    )


def test_ranks_are_the_papers() -> None:
    """The paper's lightweight table gives its column of average ranks."""
    table = {
        "bin": (14.4, 39.5, 14.5, 27.7, 4, 8),
        "fast": (23.0, 24.0, 7.1, 13.2, 8, 6),
        "quest": (48.2, 66.9, 17.9, 52.3, 11, 8),
        "oat1": (11.7, 50.8, 11.3, 47.7, 7, 3),
        "oat2": (39.8, 52.5, 16.4, 50.3, 11, 9),
        "oat4": (46.4, 65.3, 19.5, 51.7, 13, 12),
        "oat8": (56.3, 73.1, 24.4, 54.6, 16, 16),
    }
    schemes = [dict(zip("abcdef", row, strict=True)) for row in table.values()]
    ranks = average_ranks(schemes)
    assert ranks == pytest.approx([5.75, 37 / 6, 17 / 6, 6.0, 3.75, 2.5, 1.0], abs=1e-9)


def test_a_benchmark_counts_the_same_whatever_the_number_of_its_tasks() -> None:
    records = [
        record("a", "vlm-libero", 8, 50, 50, 50),
        record("a", "vlm-simpler", 8, 0),
        record("b", "vlm-libero", 8, 25, 25, 25),
        record("b", "vlm-simpler", 8, 25),
        record("b", "vlm-simpler", "auto", 50, is_row=False),
    ]
    a, b, auto = benchmark_rows(records)
    assert (a.name, a.average, a.rank) == ("a at 8", 0.5, 1.5)
    assert (b.average, b.rank) == (0.5, 1.5)
    assert (auto.name, auto.average, auto.rank) == ("b at auto", None, None)
    assert a.success["vlm-libero"].episodes == 150
    assert pooled_success(records[2]).rate == 0.5


@pytest.mark.parametrize("is_row", [False, None])
def test_what_is_no_row_of_the_paper_takes_no_rank(is_row: bool | None) -> None:
    """None is that of an older record, which does not say."""
    own, other = record("a", "vlm-simpler", 8, 10), record("klt", "vlm-simpler", 8, 50)
    rows = benchmark_rows([own, replace(other, is_paper_row=is_row)])
    assert [(row.rank, row.average) for row in rows] == [(1, 0.2), (None, 1)]
    assert [row.rank for row in benchmark_rows([own, other])] == [2, 1]


def test_nothing_that_has_not_begun_is_shown() -> None:
    begun = BenchmarkEvaluation("a", "vlm-simpler", {"budget": 8}, {})
    assert benchmark_rows([begun]) == []
