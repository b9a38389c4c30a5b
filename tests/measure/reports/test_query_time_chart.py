"""The chart of what a query costs, and the sentence below it."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.query_time_chart import plot_query_time
from tests.measure.reports.records import evaluation, flow_evaluation


def test_the_sentence_compares_the_largest_budget_with_the_smallest() -> None:
    record = evaluation({1: [True], 8: [True], "auto": [True]})
    first, last, auto = record.budgets
    budgets = (replace(first, latency_ms=2.0), replace(last, latency_ms=6.0), auto)
    (chart,) = plot_query_time(replace(record, budgets=budgets))
    assert chart.see == "8 tokens take 3 times as long as 1 token, in 2 calls."
    assert "the pale mark is auto" in chart.caption
    assert ">6 ms<" in chart.svg


def test_one_result_is_compared_with_nothing() -> None:
    (chart,) = plot_query_time(flow_evaluation([True]))
    assert chart.see == "What a query costs, and what it buys."
    assert "budget" not in chart.svg
    assert "auto" not in chart.caption
