"""What was aimed at: whether it is reached is decided by the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from benchmarks import report
from benchmarks.control_targets import targets, trained_again
from benchmarks.record import read_results
from oatkit.evaluation.success_statistics import success_rate


def cell(
    rule: str, near: int, far: int, *, auto: int | None = None, seed: int = 0, minutes: float = 20
) -> dict[str, Any]:
    """A training that solves so many of 50 episodes of two tasks, half of its time tokenizer."""
    whole = {
        "budget": 8,
        "success": asdict(success_rate(near + far, 100)),
        "tasks": [
            {"task": task, "success": asdict(success_rate(number, 50))}
            for task, number in (("near", near), ("far", far))
        ],
    }
    fewer = {"budget": "auto", "success": asdict(success_rate(auto or 0, 100)), "tasks": []}
    return {
        **{"row": "oat", "seed": seed, "rule": rule},
        **{"seconds": 30 * minutes, "tokenizer_seconds": 30 * minutes},
        "budgets": [whole, *([] if auto is None else [fewer])],
    }


def said(
    *cells: dict[str, Any],
    times: Mapping[str, Any] | None = None,
    depths: Mapping[str, Any] | None = None,
) -> str:
    return " ".join(" ".join(targets(cells, times or {}, depths or {})).split())


@pytest.mark.parametrize(
    ("rule", "solved", "verdict"),
    [
        ("auto", 45, "| reached: 90.0 (1) |"),
        ("auto", 44, "| **missed**: 88.0 (1) |"),
        ("half", 33, "| reached: 66.0 (1) |"),
        ("half", 32, "| **missed**: 64.0 (1) |"),
    ],
)
def test_success_is_that_of_all_trainings(rule: str, solved: int, verdict: str) -> None:
    assert verdict in said(cell(rule, solved, solved))
    both = said(cell(rule, solved, solved), cell(rule, solved, solved, seed=1))
    assert verdict.replace("(1)", "(2)") in both


def test_minutes_are_those_of_the_longest_training() -> None:
    short, long = cell("8", 1, 1, minutes=59), cell("8", 1, 1, seed=1, minutes=61)
    assert "minutes of one core | reached: 59.0 (1) |" in said(short)
    assert "minutes of one core | **missed**: 59.0 to 61.0 (2) |" in said(short, long)


def test_fewer_tokens_may_lose_two_points_under_every_rule() -> None:
    aim = "points below all tokens |"
    assert f"{aim} reached: -2.0 at half a chunk (1) |" in said(cell("half", 40, 40, auto=78))
    both = said(cell("half", 40, 40, auto=90), cell("8", 40, 40, auto=77))
    assert f"{aim} **missed**: +10.0 at half a chunk (1) and -3.0 after 8 steps (1) |" in both
    assert aim not in said(cell("half", 40, 40))


def test_every_time_counts() -> None:
    own, aim = cell("8", 1, 1), "of the time of all tokens |"
    times = {"oat": {"ms": {"1": 1.0, "8": 4.0, "16": 10.0, "auto": 7.0}}}
    assert f"{aim} reached: 0.70 in `control_times` |" in said(own, times=times)
    rows = [
        {"budget": 8, "share_of_all": 1.0},
        {"budget": "auto", "share_of_all": 0.8},
        {"budget": "auto", "share_of_all": 0.1},  # of another margin
    ]
    depths = {"light, oat, 8 calls, offset": {"rows": rows}}
    found = said(own, times=times, depths=depths)
    assert f"{aim} **missed**: 0.70 in `control_times` and 0.80 in `auto_depth` |" in found


def test_the_best_number_of_steps_is_that_of_a_task_and_of_one_training() -> None:
    aim = "number of steps of each task |"
    fixed = [cell("half", 20, 45), cell("8", 40, 30), cell("4", 39, 39)]
    assert f"{aim} reached: near -2.0 and far -2.0 (1) |" in said(*fixed, cell("auto", 39, 44))
    assert f"{aim} **missed**: near +4.0 and far -4.0 (1) |" in said(*fixed, cell("auto", 42, 43))
    other = cell("auto", 42, 43, minutes=21)
    assert aim not in said(*fixed, other), "the rules are of two trainings"


def test_trainings_of_one_seed_are_told_apart() -> None:
    cells = [cell("half", 1, 1), cell("8", 1, 1), cell("4", 1, 1, minutes=9)]
    (found,) = trained_again(cells)
    assert "`oat`, seed 0 (half and 8; 4)." in " ".join(found.split())
    assert trained_again(cells[:2]) == trained_again([]) == []
    assert trained_again([*cells[:2], cell("4", 1, 1, seed=1, minutes=9)]) == []


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert targets([], {}, {}) == []
    assert targets([{**cell("8", 1, 1), "row": "quest"}], {}, {}) == []


def test_the_page_has_it() -> None:
    cells = [*read_results("control")["cells"].values()]
    blocks = targets(cells, read_results("control_times"), read_results("auto_depth"))
    assert "\n\n".join(blocks) in report.section("control")
    assert "Aimed at was a score of 0.80" in report.section("policy_pusht")
