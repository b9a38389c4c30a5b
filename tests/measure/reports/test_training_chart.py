"""The chart of losses."""

from __future__ import annotations

from oatkit.measure.reports.training_chart import plot_training
from tests.measure.reports.records import comparison, kind


def test_kinds_whose_loss_still_falls_are_named() -> None:
    falling = kind("quest", {4: 0.02}, losses=(9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5))
    settled = kind("acodec", {4: 0.02}, losses=(9, 5, 2, 1, 1, 1, 1, 1, 1, 1))
    fitted = kind("bin", {8: 0.01})
    (chart,) = plot_training(comparison(falling, settled, fitted))
    assert chart.see == "Still falling at the end, so more steps would help: quest."
    assert ">acodec<" in chart.svg
    assert ">bin<" not in chart.svg
    (chart,) = plot_training(comparison(settled))
    assert chart.see == "No loss falls much at the end."


def test_without_training_there_is_no_chart() -> None:
    assert plot_training(comparison(kind("bin", {8: 0.01}))) == []
