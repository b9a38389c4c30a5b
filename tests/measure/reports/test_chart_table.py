"""What holds for the charts of every row."""

from __future__ import annotations

from oatkit.measure.reports.chart_table import COMPARISON_CHARTS
from oatkit.measure.reports.evaluation_report import EVALUATION_CHARTS
from tests.measure.reports.records import comparison, evaluation, kind, ordered_kind


def test_charts_have_a_name_of_their_own_a_sentence_and_a_caption() -> None:
    ordered = [ordered_kind(name, (1.0, 0.5, 0.2)) for name in ("oat", "klt")]
    compared = comparison(*ordered, kind("quest", {4: 0.1}, losses=(3.0, 2.0, 1.0)))
    charts = [chart for plot in COMPARISON_CHARTS.values() for chart in plot(compared)]
    evaluated = evaluation({1: [True, False], 8: [True, True], "auto": [True, True]})
    charts += [chart for plot in EVALUATION_CHARTS.values() for chart in plot(evaluated)]
    assert len(charts) == 9
    assert len({chart.name for chart in charts}) == len(charts)
    for chart in charts:
        assert chart.see.endswith(".")
        assert chart.caption.endswith(".")
        assert chart.svg.startswith('<svg viewBox="')
