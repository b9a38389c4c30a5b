"""The chart of success rates, and the sentence below it."""

from __future__ import annotations

from oatkit.measure.reports.success_chart import MAX_TASKS, plot_success
from tests.measure.reports.records import evaluation, flow_evaluation


def test_the_sentence_names_the_best_budget_if_there_is_one() -> None:
    (chart,) = plot_success(evaluation({1: [False] * 2, 8: [True, False]}))
    assert chart.see == "Most is solved with 8 tokens: 50%, against 0% with 1 token."
    (chart,) = plot_success(evaluation({1: [False] * 2, 8: [False] * 2}))
    assert chart.see == "No budget solves an episode."


def test_every_task_has_axes_until_there_are_too_many() -> None:
    few = tuple(f"task-{n}" for n in range(3))
    (chart,) = plot_success(evaluation({8: [True]}, tasks=few))
    assert all(f">{title}<" in chart.svg for title in ("all tasks", *few))
    many = tuple(f"task-{n}" for n in range(MAX_TASKS + 1))
    (chart,) = plot_success(evaluation({8: [True]}, tasks=many))
    assert ">all tasks<" in chart.svg
    assert "task-0" not in chart.svg


def test_a_flow_expert_has_one_result_and_no_axis_of_budgets() -> None:
    (chart,) = plot_success(flow_evaluation([True, False]))
    assert chart.see == "The flow expert solves 50%."
    assert ">flow<" in chart.svg
    assert "budget" not in chart.svg + chart.caption
