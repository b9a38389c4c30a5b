"""The chart of errors against tokens and bits."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.rate_distortion_chart import plot_rate_distortion
from tests.measure.reports.records import comparison, kind


def test_every_kind_and_the_reference_are_named_once() -> None:
    (chart,) = plot_rate_distortion(comparison(kind("oat", {1: 0.2, 4: 0.02}), kind("bin", {8: 0})))
    for name in ("oat", "bin", "Gaussian reference"):
        assert chart.svg.count(f">{name}<") == 1
    assert chart.see.startswith("bin needs the fewest tokens to leave at most 1% of the variance")


def test_budget_0_has_no_place_on_a_log_axis() -> None:
    made = kind("oat", {1: 0.2, 4: 0.02})
    nothing = replace(made.measurement.budgets[0], budget=0, tokens=0.0, bits=0.0, mse=1.0)
    budgets = (nothing, *made.measurement.budgets)
    with_zero = replace(made, measurement=replace(made.measurement, budgets=budgets))
    (chart,), (other,) = (plot_rate_distortion(comparison(k)) for k in (made, with_zero))
    assert chart.svg == other.svg
