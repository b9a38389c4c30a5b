"""The paper's numbers give its averages and ranks."""

from __future__ import annotations

from statistics import fmean

import pytest

from oatkit.evaluation.benchmark_statistics import average_ranks
from oatkit.jobs import paper_numbers as paper


def test_a_line_is_a_row_a_budget_and_a_number_for_each_column() -> None:
    assert paper.read_numbers(("a", "b"), "\nx | | 1 2\nx | 8 | 3 4.5\n") == {
        ("x", "all"): {"a": 1, "b": 2},
        ("x", "8"): {"a": 3, "b": 4.5},
    }


@pytest.mark.parametrize(
    ("text", "averages"),
    [
        (paper.CO_TRAINING, (59.0, 53.1, 56.5, 59.4, 58.3, 62.5, 45.7, 56.0, 58.3, 58.2)),
        (
            paper.VLM_AR,
            (
                *(11.2, 48.4, 58.5, 52.6, 19.8, 45.5, 49.7, 60.2, 63.7, 21.6, 48.0, 58.9, 62.8),
                *(63.8, 0.8, 32.0, 32.1, 52.2, 19.4, 40.0, 44.5, 50.5, 56.8, 19.0, 39.5, 44.5),
                *(50.2, 50.6),
            ),
        ),
    ],
)
def test_averages_over_benchmarks_are_the_printed_ones(
    text: str, averages: tuple[float, ...]
) -> None:
    rows = paper.read_numbers(paper.VLM_BENCHMARKS, text).values()
    # printed numbers are rounded before and after the mean is taken
    assert [fmean(row.values()) for row in rows] == pytest.approx(averages, abs=0.11)


def test_ranks_are_the_printed_ones() -> None:
    rows = paper.read_numbers(paper.VLM_BENCHMARKS, paper.VLM_AR)
    first = [row for (name, _), row in rows.items() if name.startswith("paligemma2")]
    ranks = dict(zip(list(rows)[:14], average_ranks(first), strict=True))
    assert ranks["paligemma2, oat", "16"] == pytest.approx(2.9, abs=0.05)
    assert ranks["paligemma2, bin", "all"] == pytest.approx(13.3, abs=0.06)
