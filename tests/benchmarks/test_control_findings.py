"""Where `oat` stands: what the page says changes with the numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from benchmarks import report
from benchmarks.control_findings import RIVALS, RULES, standings, statement
from benchmarks.record import read_results
from oatkit.evaluation.success_statistics import success_rate

EPISODES = 200


def result(budget: int | str, successes: int, *, is_kept: bool = True) -> dict[str, Any]:
    """Results of a budget, of which the first episodes are solved."""
    solved = {"solved": {"near": "1" * successes + "0" * (EPISODES - successes)}}
    rate = asdict(success_rate(successes, EPISODES))
    return {"budget": budget, "success": rate, **(solved if is_kept else {})}


def cell(row: str, seed: int, rule: str, *budgets: dict[str, Any]) -> dict[str, Any]:
    return {"row": row, "seed": seed, "rule": rule, "budgets": [*budgets]}


def neighbor(kind: str, seed: int, **rules: int) -> dict[str, Any]:
    found = {name.strip("_").replace("_", " "): result(1, n) for name, n in rules.items()}
    return {"kind": kind, "seed": seed, "rules": found}


def said(cells: list[dict[str, Any]], neighbors: list[dict[str, Any]] | None = None) -> str:
    return " ".join(" ".join(statement(cells, neighbors or [])).split())


def test_who_is_ahead_depends_on_the_numbers_alone() -> None:
    own = [cell("oat", 0, "8", result(8, 150))]
    for theirs, verdict in ((100, "ahead"), (149, "level"), (190, "behind")):
        (found,) = standings([*own, cell("quest", 0, "8", result(16, theirs))], [])
        assert (found.verdict, found.name, found.rule) == (verdict, "`quest`", "8")
        assert found.points == pytest.approx((150 - theirs) / 2)
        assert found.low < found.points < found.high
        text = said([*own, cell("quest", 0, "8", result(16, theirs))])
        shown = verdict if verdict == "level" else f"**{verdict}**"
        assert f"| `quest` | {shown} {(150 - theirs) / 2:+.1f} (1) |" in text
        assert "| `oat` beside | after 8 steps |" in text
        counts = {"ahead": "ahead in 1", "level": "level in 1", "behind": "behind in 1"}
        assert all((words in text) == (name == verdict) for name, words in counts.items())


def test_an_interval_that_holds_0_is_level_and_one_beside_it_is_not() -> None:
    own = [cell("oat", 0, "4", result(8, 150))]
    verdicts = {}
    for theirs in range(120, 181):
        (found,) = standings([*own, cell("klt", 0, "4", result(8, theirs))], [])
        verdicts[theirs] = found.verdict
        assert found.verdict == (
            "ahead" if found.low > 0 else "behind" if found.high < 0 else "level"
        )
    assert list(dict.fromkeys(verdicts.values())) == ["ahead", "level", "behind"]


def test_more_trainings_are_counted_first_with_first_by_their_seeds() -> None:
    own = [cell("oat", seed, "auto", result(8, 150)) for seed in (0, 2, 1)]
    theirs = [cell("oat-pow2", seed, "auto", result(8, 100 + seed)) for seed in (1, 0)]
    (found,) = standings([*own, *theirs], [])
    assert found.trainings == 2
    assert found.points == pytest.approx(((150 - 100) + (150 - 101)) / 4)
    third = cell("oat-pow2", 2, "auto", result(8, 150))
    (found,) = standings([third, *own, *theirs], [])
    assert found.trainings == 3
    older = cell("oat-pow2", 3, "auto", result(8, 0, is_kept=False))
    assert standings([older, third, *own, *theirs], []) == [found]


def test_lerobots_policies_stand_under_the_rules_that_they_have() -> None:
    cells = [cell("oat", 0, rule, result(8, 150)) for rule in RULES]
    theirs = [neighbor("act", 0, _16_steps=100, _8_steps=150, _4_steps_blended=0)]
    found = {each.rule: each for each in standings(cells, theirs)}
    assert {rule: each.verdict for rule, each in found.items()} == {
        "half": "ahead",
        "8": "level",
    }
    assert found["half"].name == "ACT"
    assert "| ACT | **ahead** +25.0 (1) | level +0.0 (1) |" in said(cells, theirs)


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert statement([], []) == []
    assert statement([cell("oat", 0, "8", result(8, 150))], []) == []
    without = [cell(row, 0, "8", result(8, 150, is_kept=False)) for row in ("oat", *RIVALS)]
    assert statement(without, [neighbor("diffusion", 0, _8_steps=3)]) == []


def by_budget(*successes: int, rule: str = "8", seed: int = 0) -> dict[str, Any]:
    budgets = [result(2**power, number) for power, number in enumerate(successes)]
    return cell("oat", seed, rule, *budgets, result("auto", 0))


def test_success_rises_where_the_interval_is_above_0() -> None:
    text = said([by_budget(100, 120, 140, 150), by_budget(150, 150, 150, 151, rule="half")])
    assert "`oat` with 8 in place of 1 +0.5 at half a chunk (" in text
    assert " and +25.0 after 8 steps (" in text
    assert (
        "above 0 with its whole interval after 8 steps; the worst doubling is from 1 to 2 " in text
    )
    assert "10 points, reached by `oat` after 8 steps, and no doubling" in text
    assert "costs more than 2, missed by none." in text


def test_the_worst_doubling_and_what_was_aimed_at() -> None:
    text = said([by_budget(150, 160, 150, 152)])
    assert "the worst doubling is from 2 to 4 after 8 steps, -5.0 (" in text
    assert (
        "10 points, reached by none, and no doubling that costs more than 2, missed by `oat`."
        in text
    )
    assert "interval nowhere" in text
    text = said([by_budget(150, 160, 156, 157)])
    assert "-2.0 (" in text
    assert "missed by none." in text, "exactly as much may be lost"


def test_trainings_that_lack_a_budget_do_not_count_for_it() -> None:
    whole, part = by_budget(100, 110, 120, 130), cell("oat", 1, "8", result(8, 200))
    assert "+15.0 after 8 steps" in said([whole, part])
    assert "; 1)" in said([whole, part])
    assert "; 2)" in said([whole, by_budget(100, 110, 120, 130, seed=1)])


def test_the_section_begins_with_it() -> None:
    cells = [*read_results("control")["cells"].values()]
    neighbors = [*read_results("neighbors")["rows"].values()]
    blocks = "\n\n".join(statement(cells, neighbors))
    begins = f"## How chunks are executed\n\n{blocks}\n\n"
    assert report.section("control").startswith(begins)
