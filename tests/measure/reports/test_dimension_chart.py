"""The chart of the errors of each dimension."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.measure.reports.dimension_chart import plot_dimensions
from tests.measure.reports.records import comparison, kind


@pytest.mark.parametrize(("std", "worst"), [((1.0, 1.0), "y"), ((1.0, 100.0), "x")])
def test_an_error_is_relative_to_how_much_the_dimension_moves(
    std: tuple[float, float], worst: str
) -> None:
    made = kind("bin", {8: 0.1})
    (budget,) = made.measurement.budgets
    measurement = replace(made.measurement, budgets=(replace(budget, mae=(0.1, 0.3)),))
    (chart,) = plot_dimensions(comparison(replace(made, measurement=measurement), std=std))
    assert chart.see == f"Over all kinds, {worst} has the largest error for how much it moves."
