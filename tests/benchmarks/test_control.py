"""How chunks are executed: every rule possible, every row before a second seed, all on the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.control import EVERY_BUDGET, ROWS, RULES, Options, cells
from benchmarks.report_control import beyond, control, control_times
from oatkit.jobs.untrained_policy import policy_config
from oatkit.policies.policy_table import policy_kind
from oatkit.tokenizers.kind_table import kind_named
from oatkit.types import Execution


def test_rules_and_rows_are_possible_and_the_papers_protocol_is_among_them() -> None:
    assert RULES["half"] == Execution()
    assert set(EVERY_BUDGET) <= set(RULES)
    for rule in RULES.values():
        rule.within(32)
    for row in ROWS.values():
        assert set(row.options) <= set(kind_named(row.kind).settings)
        assert policy_kind(row.policy)
        replace(policy_config(row.policy), **row.changes)


def test_every_row_has_a_seed_before_any_has_two() -> None:
    found = list(cells(Options(seeds=(0, 1))))
    assert [seed for _, seed, _ in found] == sorted(seed for _, seed, _ in found)
    possible = sum(row.can_follow(rule) for row in ROWS.values() for rule in RULES.values())
    assert len(set(found)) == len(found) == 2 * possible


def test_committed_actions_are_told_to_policies_that_take_them() -> None:
    late = RULES["8, 4 late, committed"]
    assert late == Execution(8, delay=4, commit=True)
    unable = {"light-flow", "bin, 1000 steps", "quest, as first"}
    able = {name for name, row in ROWS.items() if row.can_follow(late)}
    assert {"oat", "oat-pow2", "klt, no offset"} <= able
    assert unable <= ROWS.keys() - able


def test_rows_are_compared_pair_by_pair_on_the_episodes_that_are_kept() -> None:
    old: dict[str, Any] = {}
    own, reference = [{"solved": {"near": "1111"}}, old], [old, {"solved": {"near": "1000"}}]
    found = beyond(own, reference)
    assert found.startswith("+75.0 (")
    assert found.endswith(", p 0.25; 1")
    assert beyond([old], reference) == beyond(own, [old]) == ""


def test_the_page_shows_rules_tasks_seams_and_budgets() -> None:
    def result(budget: int | str, successes: int) -> dict[str, Any]:
        rate = {"successes": successes, "episodes": 10, "rate": successes / 10}
        numbers = {"seam_jump": 0.5, "inner_jump": 0.25, "steps_per_query": 8.0, "latency_ms": 4.0}
        tasks = [{"task": "box-close", "success": rate}]
        return {"budget": budget, "success": rate, "tasks": tasks, **numbers}

    def cell(seed: int, successes: int) -> dict[str, Any]:
        return {
            **{"row": "oat", "seed": seed, "rule": "8", "steps": 100, "episodes": 10},
            **{"tokenizer_steps": 2000, "early_weight": 8.0, "code_smoothing": 1.0, "history": 2},
            "offset_layers": 3,
            "budgets": [result(1, 1), result(8, successes), result("auto", 5)],
        }

    late = {**cell(0, 4), "rule": "8, 2 late, committed"}
    with_late = control({"results": {"cells": {"a": cell(0, 4), "b": late}}})
    assert "told those that are executed before its late chunk acts" in " ".join(with_late.split())
    text = control({"results": {"cells": {"a": cell(0, 4), "b": cell(1, 8)}}})
    assert "committed" not in text
    assert "The policy of `light-flow`" not in text
    flow = {**cell(0, 4), "row": "light-flow", "seconds": 3090.0}
    timed = [cell(seed, 4) | {"seconds": seconds} for seed, seconds in ((0, 1140.0), (1, 2340.0))]
    text_with_flow = control({"results": {"cells": dict(enumerate([flow, *timed]))}})
    took = "was trained for 51.5 minutes, those of `oat` for 19.0 to 39.0, beside other work"
    assert took in " ".join(text_with_flow.split())
    assert "| `oat` | 2 | 100 | 2,000 | 8 | 1 | 3 | 2 | 60.0 (39 - 78): 40.0, 80.0 |" in text
    assert "| `oat` | 60 |" in text
    assert "| `oat` | 0.500, 0.250; 8 |" in text
    assert "| rule 8 | 1 | 8 | auto |" in text
    assert "10.0 (3 - 30): 10.0, 10.0 |" in text


def test_the_page_shows_the_times_of_all_policies() -> None:
    ms = {"act": {"whole": 3.0}, "oat": {"1": 2.0, "8": 4.126, "auto": 2.5}}
    results = {
        name: {"ms": own, "reference_ms": 4.126, "is_shuffled": True} for name, own in ms.items()
    }
    settings = {"observations": 40, "repeats": 5, "threads": 1}
    text = control_times({"settings": settings, "results": results})
    assert "| policy | 1 | 8 | auto | whole |" in text
    assert "| `oat` | 2.00 | 4.13 | 2.50 | |\n| `act` | | | | 3.00 |" in text
