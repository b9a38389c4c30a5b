"""The chart of success against time, and the words below it."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.time_chart import plot_success_by_time
from oatkit.types import PolicyEvaluation
from tests.measure.reports.records import evaluation, flow_evaluation


def timed(record: PolicyEvaluation, *times_ms: float | None) -> PolicyEvaluation:
    pairs = zip(record.budgets, times_ms, strict=True)
    return replace(record, budgets=tuple(replace(b, latency_ms=ms) for b, ms in pairs))


def test_the_sentence_tells_success_and_time_of_both_ends() -> None:
    record = timed(evaluation({1: [False], 8: [True], "auto": [True]}), 2.0, 6.0, 3.0)
    (chart,) = plot_success_by_time(record)
    assert chart.see == "0% in 2 ms with 1 token, 100% in 6 ms with 8 tokens."
    assert "the pale mark is auto" in chart.caption
    assert all(f">{name}<" in chart.svg for name in ("1", "8", "auto"))


def test_every_policy_has_a_curve_with_a_name_that_tells_it_from_the_others() -> None:
    own = timed(evaluation({1: [False], 8: [True]}, execute=4), 2.0, 6.0)
    half = timed(evaluation({8: [False]}), 6.0)
    quest = replace(half, policy="out/quest", kind="quest")
    (chart,) = plot_success_by_time(replace(own, others=(half, quest)))
    for name in ("policy (4", "policy (8", "quest (8"):
        assert f">out/{name} of 16 steps executed)<" in chart.svg
    assert "same tasks" not in chart.caption
    elsewhere = timed(evaluation({8: [True]}, ("b",)), 6.0)
    (chart,) = plot_success_by_time(replace(own, others=(elsewhere,)))
    assert "Not all records have the same tasks" in chart.caption


def test_what_has_no_time_is_left_out() -> None:
    record = evaluation({1: [True], 8: [True]})
    assert plot_success_by_time(timed(record, None, None)) == []
    (chart,) = plot_success_by_time(timed(record, None, 3.0))
    assert chart.see == "100% in 3 ms with 8 tokens."


def test_a_flow_expert_and_auto_alone() -> None:
    (chart,) = plot_success_by_time(flow_evaluation([True]))
    assert chart.see == "100% in 2.5 ms with its flow expert."
    assert "auto" not in chart.caption
    only_auto = evaluation({8: [True], "auto": [True]})
    (chart,) = plot_success_by_time(replace(only_auto, budgets=only_auto.budgets[1:]))
    assert chart.see == "What the time of a query buys."


def test_times_that_are_far_apart_have_a_logarithmic_axis() -> None:
    own = timed(evaluation({1: [True]}), 2.0)
    slow = timed(evaluation({8: [True]}), 500.0)
    (chart,) = plot_success_by_time(replace(own, others=(slow,)))
    assert ">256<" in chart.svg
