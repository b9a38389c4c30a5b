"""The chart of policies on the tokens of each kind."""

from __future__ import annotations

from oatkit.measure.reports.probe_chart import plot_probe
from tests.measure.reports.records import comparison, kind, probed


def test_a_curve_for_every_kind_and_a_line_for_what_needs_no_network() -> None:
    oat, fast = kind("oat", {1: 0.2, 4: 0.02}), kind("fast", {8: 0.1})
    (chart,) = plot_probe(comparison(probed(oat, {1: 0.3, 4: 0.1}), probed(fast, {8: None})))
    assert chart.see.startswith("For a policy: oat with 4 tokens")
    assert all(f">{word}</text>" in chart.svg for word in ("oat", "hold", "ridge"))
    assert ">fast</text>" not in chart.svg, "nothing of it decodes"


def test_there_is_no_chart_without_policies() -> None:
    assert plot_probe(comparison(kind("oat", {1: 0.2}))) == []
