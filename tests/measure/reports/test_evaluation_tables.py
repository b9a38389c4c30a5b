"""The tables of an evaluation, from records made by hand."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.evaluation_tables import evaluation_tables
from tests.measure.reports.records import evaluation, flow_evaluation


def test_success_is_given_by_task_and_budget() -> None:
    record = evaluation({1: [True, False], 8: [True, True]}, tasks=("near", "far"))
    html = evaluation_tables(record)["Success"]
    assert "<th>task</th><th>1</th><th>8</th>" in html
    assert "<td>near</td><td>1 of 2<small>" in html
    assert "<td><b>all</b></td><td>2 of 4<small>" in html
    assert "<td>score</td>" not in html


def test_a_task_that_a_budget_has_not_done_is_empty() -> None:
    record = evaluation({1: [True], 8: [True]}, tasks=("near", "far"))
    first, last = record.budgets
    record = replace(record, budgets=(replace(first, tasks=first.tasks[:1]), last))
    assert "<td>far</td><td></td><td>1 of 1<small>" in evaluation_tables(record)["Success"]


def test_clipped_actions_are_counted_by_step() -> None:
    record = evaluation({8: [True, True]})
    long, short = record.episodes
    episodes = (replace(long, steps=90, clipped=0.0), replace(short, steps=10, clipped=1.0))
    html = evaluation_tables(replace(record, episodes=episodes))["Time and calls"]
    assert "<td>10%</td></tr>" in html


def test_pairs_are_shown_where_there_are_some() -> None:
    assert evaluation_tables(flow_evaluation([True]))["Pair by pair"] == ""
    html = evaluation_tables(evaluation({1: [False] * 20, 8: [True] * 20}))["Pair by pair"]
    assert "<td>8 against 1</td><td>20</td><td>20</td><td>0</td><td>+100</td>" in html
