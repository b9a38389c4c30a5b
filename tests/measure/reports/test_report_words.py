"""Names of results: budgets, tokens and what acts without them."""

from __future__ import annotations

from oatkit.measure.reports.report_words import (
    axis_name,
    count_tokens,
    execution_words,
    fixed_budgets,
    maybe,
    means_of_acting,
    result_name,
    tasks_of,
)
from tests.measure.reports.records import evaluation, flow_evaluation


def test_results_are_named_by_their_budgets() -> None:
    record = evaluation({1: [True], 8: [True], "auto": [True]}, tasks=("near", "far"))
    assert [result_name(record, b.budget) for b in record.budgets] == ["1", "8", "auto"]
    assert [b.budget for b in fixed_budgets(record)] == [1, 8]
    assert [means_of_acting(record, b) for b in record.budgets] == [
        *("1 token", "8 tokens", "3 tokens")
    ]
    assert axis_name(record) == "budget, tokens"
    assert tasks_of(record.budgets) == ["near", "far"]


def test_a_flow_expert_is_named_instead_of_a_budget() -> None:
    record = flow_evaluation([True])
    (result,) = record.budgets
    assert result_name(record, result.budget) == "flow"
    assert means_of_acting(record, result) == "its flow expert"
    assert axis_name(record) == ""


def test_tokens_are_counted_in_words() -> None:
    assert [count_tokens(count) for count in (1, 5.125)] == ["1 token", "5.12 tokens"]


def test_execution_is_told_in_words() -> None:
    plain = evaluation({8: [True]})
    assert execution_words(plain) == "8 of 16 steps executed"
    rich = evaluation({8: [True]}, execute="auto", blend=0.1, delay=2, draws=4)
    assert execution_words(rich) == (
        "as many steps executed as the policy finds worth it, averaged with older chunks "
        "(decay 0.1), 2 steps late, the best of 4 draws"
    )
    told = evaluation({8: [True]}, delay=2, commit=True)
    assert execution_words(told) == "8 of 16 steps executed, 2 steps late, committed"


def test_a_number_may_be_missing() -> None:
    assert [maybe(value, ".2g") for value in (None, 0.125)] == ["-", "0.12"]
