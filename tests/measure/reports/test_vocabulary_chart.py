"""The chart of how evenly slots use the vocabulary."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.vocabulary_chart import plot_vocabulary
from oatkit.types import KindComparison, SlotMeasurement
from tests.measure.reports.records import comparison, kind


def with_perplexity(made: KindComparison, *values: float) -> KindComparison:
    slots = tuple(SlotMeasurement(0.5, value) for value in values)
    return replace(made, measurement=replace(made.measurement, slots=slots))


def test_the_kinds_with_the_most_and_the_least_even_use_are_named() -> None:
    even = with_perplexity(kind("oat", {4: 0.1}), 512.0, 512.0, 1024.0)
    uneven = with_perplexity(kind("bin", {4: 0.1}), 1.0, 102.4, 102.4)
    (chart,) = plot_vocabulary(comparison(even, uneven))
    assert chart.see == (
        "oat uses its vocabulary most evenly, bin least: the ids of a slot are worth 50% and 10% "
        "of what there is."
    )
