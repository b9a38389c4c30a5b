"""The tables of a comparison, from records made by hand."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import pytest

from oatkit.measure.metric_table import METRICS, Metric
from oatkit.measure.reports.comparison_tables import comparison_tables
from tests.measure.reports.records import comparison, kind, ordered_kind


def test_rate_and_distortion_has_a_column_for_every_metric() -> None:
    html = comparison_tables(comparison(kind("oat", {1: 0.2, 4: 0.02})))["Rate and distortion"]
    for metric in METRICS.values():
        assert f"<th>{metric.heading}</th>" in html
        assert escape(f"{metric.heading}: {metric.meaning}") in html
    assert "<td>2 %</td><td>0.40</td></tr>" in html  # left of the variance, over the reference


def test_a_record_from_before_a_metric_leaves_its_column_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METRICS, "roundness", Metric("round", "how round", lambda _: 1.0))
    old = kind("oat", {1: 0.2})
    (budget,) = old.measurement.budgets
    new = replace(budget, more={"roundness": 0.125})
    new_kind = replace(old, measurement=replace(old.measurement, budgets=(new,)))
    tables = [comparison_tables(comparison(k))["Rate and distortion"] for k in (old, new_kind)]
    assert ["<td></td><td>20 %</td>" in html for html in tables] == [True, False]
    assert "<td>0.125</td><td>20 %</td>" in tables[1]


def test_the_cheapest_ways_are_named() -> None:
    html = comparison_tables(comparison(kind("oat", {4: 0.02})))["The cheapest way to an error"]
    assert "<td>3 %</td><td>3.00e-02</td><td>oat, 4 tokens, 40 bits</td>" in html
    assert "<td>1 %</td><td>1.00e-02</td><td>none</td><td>none</td>" in html


def test_allocation_is_told_of_kinds_that_decode_prefixes() -> None:
    assert comparison_tables(comparison(kind("bin", {8: 0.1})))["Information allocation"] == ""
    ordered = ordered_kind("klt", (1.0, 0.4, 0.2))
    html = comparison_tables(comparison(ordered))["Information allocation"]
    assert "<td>klt</td><td>1</td><td>0.3</td><td>0.3</td><td>0</td>" in html
    gain = "<td>1</td><td>1.00</td><td>6.00e-01</td><td>60.0%</td><td>4.00e-01</td>"
    assert f"<td>klt</td>{gain}" in html


def test_a_kind_without_training_steps_is_called_fitted() -> None:
    made = comparison(kind("bin", {8: 0.1}), kind("oat", {4: 0.1}), steps={"bin": 0, "oat": 1200})
    html = comparison_tables(made)["Training, speed and robustness"]
    assert "<td>bin</td><td>7</td><td>fitted</td>" in html
    assert "<td>oat</td><td>7</td><td>1,200</td>" in html
