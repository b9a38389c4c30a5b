"""What the results of light policies say of the claims on them."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from benchmarks import claim_findings as claims
from benchmarks import light_findings, record
from oatkit.evaluation.success_statistics import compare_pairs, success_rate
from tests.benchmarks.result_rows import control_cell, tasks

RECIPE = {
    **{"steps": 2500, "tokenizer_steps": 8000, "batch_size": 64, "history": 1},
    **{"code_smoothing": 1.0, "offset_layers": 0},
}


def light_row(steps: int, budgets: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """A row of the light table whose differences to `oat` have these ends."""
    against = {
        budget: {"difference": (low + high) / 2, "low": low, "high": high, "episodes": 200}
        for budget, (low, high) in budgets.items()
    }
    protocol = {"sampling": {"temperature": 0.0}}
    evaluated = [{"budget": int(budget)} for budget in budgets]
    row = {"steps": steps, "against": against, "protocol": protocol, "budgets": evaluated}
    return {**row, "tokenizer_steps": 0}


def save_light(oat: dict[str, Any], **others: dict[str, Any]) -> None:
    rows = {"state": {"oat": oat, **others}}
    record.write_result("policy_table", seed=0, settings={}, results=rows)


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((-0.3, -0.1), claims.AGREES),
        ((0.1, 0.3), claims.DIFFERS),
        ((-0.1, 0.1), claims.UNSURE),
    ],
)
def test_a_status_changes_with_the_json(
    results: Path, ends: tuple[float, float], status: str
) -> None:
    save_light(light_row(2500, {"1": ends}))
    found = light_findings.than_oat("oat", claims.is_larger, budget=1)()
    assert found.status == status
    assert "200 episodes, temperature 0, 2500 steps" in found.ours
    path = results / "policy_table.json"
    assert json.loads(path.read_text())["results"]["state"]["oat"]["steps"] == 2500


def test_rows_that_were_not_trained_alike_are_not_compared(results: Path) -> None:
    save_light(light_row(2500, {}), bin=light_row(226, {"128": (-0.6, -0.5)}))
    found = light_findings.than_oat("bin", claims.is_larger)()
    different = "(not only the tokens differ: steps 2500 and 226)"
    assert found.status == f"{claims.MISSING} {different}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"history": 2}, "frames 1 and 2"),
        ({"code_smoothing": 0.0}, "code smoothing 1.0 and 0.0"),
        ({"offset_layers": 3}, "offset layers 0 and 3"),
        ({"tokenizer_steps": 2000}, "tokenizer steps 8000 and 2000"),
        ({"batch_size": 32}, "batch size 64 and 32"),
        ({"history": None}, "frames 1 and not stored"),
        ({"steps": 7, "history": 2}, "steps 2500 and 7; frames 1 and 2"),
    ],
)
def test_rows_of_other_recipes_decide_nothing(
    results: Path, change: dict[str, Any], words: str
) -> None:
    own = {**light_row(2500, {}), **RECIPE}
    other = {**light_row(2500, {"16": (-0.6, -0.5)}), **RECIPE}
    quest = light_findings.than_oat("quest", claims.is_larger)
    save_light(own, quest=other)
    assert quest().status == claims.AGREES
    save_light(own, quest={**other, **change})
    assert quest().status == f"{claims.MISSING} (not only the tokens differ: {words})"
    assert quest().source == "policy_table"


def test_seeds_of_a_row_are_compared_together(results: Path) -> None:
    find = light_findings.than_oat("oat", claims.is_larger, budget=1)
    oat = light_row(2500, {"1": (-0.3, -0.1)})
    oat["against"]["1"]["seeds"] = 2
    save_light(oat, **{"oat, seed 1": light_row(2500, {})})
    assert "temperature 0, 2 seeds, 2500 steps" in find().ours
    save_light(oat, **{"oat, seed 1": light_row(100, {})})
    assert find().status.endswith("(not only the tokens differ: steps 2500 and 100)")


def test_ablations_in_closed_loop_decide_too(results: Path) -> None:
    find = light_findings.swept("codebook", "levels 8 6 5", "levels 8 5 5 5", claims.is_larger)
    assert find().status == claims.MISSING
    rows = {
        row: {
            "steps": 100,
            "tokenizer_steps": 50,
            "protocol": {"sampling": {"temperature": 0.0}},
            "budgets": [{"budget": 8, "success": asdict(success_rate(successes, 200))}],
        }
        for row, successes in (("levels 8 6 5", 40), ("levels 8 5 5 5", 120))
    }
    record.write_result("policy_sweep", seed=0, settings={}, results={"codebook": rows})
    assert find().status == claims.AGREES
    assert find().ours == (
        "20 and 60 %: +40 points (+31 to +48), 200 and 200 episodes, unpaired, of 1 and 1 "
        "seeds, temperature 0, 100 steps"
    )


def save_control(*cells: dict[str, Any]) -> None:
    found = {f"{cell['row']}/{cell['seed']}/{cell['rule']}": cell for cell in cells}
    record.write_result("control", seed=0, settings={}, results={"cells": found})


def test_rows_of_control_come_before_the_light_table(results: Path) -> None:
    save_light(light_row(2500, {"1": (-0.3, -0.1)}), quest=light_row(2500, {"16": (-0.3, -0.1)}))
    quest = light_findings.than_oat("quest", claims.is_larger)
    assert (quest().status, quest().source) == (claims.AGREES, "policy_table")
    oat = [control_cell("oat", seed, {8: 100}) for seed in range(3)]
    save_control(*oat)
    assert quest().source == "policy_table", "one of the two is not in control"
    save_control(*oat, control_cell("quest", 0, {16: 140}))
    assert (quest().status, quest().source) == (claims.DIFFERS, "control")
    assert quest().ours == (
        "70 and 50 %: -20 points (-27 to -12), 200 and 600 episodes, unpaired, of 1 and 3 "
        "seeds, temperature 0, 2500 steps"
    )
    one = light_findings.than_oat("oat", claims.is_larger, budget=1)
    assert one().source == "policy_table", "control has no such budget"
    save_control(*(control_cell("oat", seed, {1: 40, 8: 100}) for seed in range(3)))
    assert (one().status, one().source) == (claims.AGREES, "control")
    corrected = [
        {**control_cell("oat", seed, {1: 100, 8: 100}), "offset_layers": 3} for seed in range(3)
    ]
    save_control(*corrected)
    assert one().source == "policy_table", "an offset head is not the paper's"


def test_tokenizers_of_different_steps_are_not_compared(results: Path) -> None:
    quest = light_findings.than_oat("quest", claims.is_larger)
    own = control_cell("oat", 0, {8: 100})
    save_control(own, control_cell("quest", 0, {16: 20}, tokenizer_steps=2000))
    assert quest().status.endswith("(not only the tokens differ: tokenizer steps 2000 and 8000)")
    save_control(own, control_cell("bin", 0, {128: 20}, tokenizer_steps=None))
    assert light_findings.than_oat("bin", claims.is_larger)().status == claims.AGREES


def robosuite_row(budgets: list[dict[str, Any]]) -> dict[str, Any]:
    row = {"steps": 100, "tokenizer_steps": 50, "protocol": {"sampling": {"temperature": 0.0}}}
    return {**row, "budgets": budgets, "settings": {"tokenizer": None}, "tokens": 8}


def test_budgets_on_robosuite_are_compared_on_the_episodes_that_both_have(results: Path) -> None:
    pair = asdict(compare_pairs("1", "8", [(False, True)] * 9 + [(True, True)] * 3))
    one, eight = tasks(lift=(18, 20), can=(0, 10)), tasks(lift=(10, 10), can=(2, 10))
    row = robosuite_row([{"budget": 1, **one}, {"budget": 8, **eight}])
    oat = {**row, "against_largest": [pair]}
    find = light_findings.on_robosuite("oat", claims.is_larger, budget=1)
    assert find().status == claims.MISSING
    record.write_result("policy_robosuite", seed=0, settings={}, results={"oat": oat})
    assert find().status == claims.AGREES
    low, high = 100 * pair["low"], 100 * pair["high"]
    assert find().ours.startswith(
        f"+75 points ({low:+.0f} to {high:+.0f}), 12 episodes that both have, seeds: 1,"
    )
    rows = {"oat": oat, "oat, seed 1": {**oat, "against_largest": []}}
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find() == claims.NOT_MEASURED, "one of the seeds has no such comparison"
    rows["oat, seed 1"] = oat
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert "24 episodes that both have, seeds: 2," in find().ours


def test_other_mixes_of_tasks_decide_nothing(results: Path) -> None:
    oat = robosuite_row([{"budget": 8, **tasks(lift=(9, 10), can=(9, 10))}])
    same = robosuite_row([{"budget": 16, **tasks(lift=(0, 20), can=(0, 20))}])
    other = robosuite_row([{"budget": 16, **tasks(lift=(0, 10), can=(0, 30))}])
    find = light_findings.on_robosuite("quest", claims.is_larger)
    rows = {"oat": oat, "quest": same}
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status == claims.AGREES
    rows["quest"] = other
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status.endswith("tasks 75 % can, 25 % lift and 50 % can, 50 % lift)")


def test_rows_of_robosuite_decide(results: Path) -> None:
    find = light_findings.on_robosuite("quest", claims.is_larger)
    assert find().status == claims.MISSING
    rows = {
        name: {
            **{"steps": 100, "tokenizer_steps": 50},
            "protocol": {"sampling": {"temperature": 0.0}},
            "budgets": [{"budget": 8, "success": asdict(success_rate(successes, 150))}],
        }
        for name, successes in (("oat", 120), ("quest", 60))
    }
    record.write_result("policy_robosuite", seed=0, settings={}, results=rows)
    assert find().status == claims.AGREES


@pytest.mark.parametrize(
    ("others", "status"),
    [
        ({2: 60, 4: 80, 8: 160}, claims.AGREES),  # 70 of 200 without nesting
        ({2: 10, 4: 20, 8: 70}, claims.DIFFERS),
        ({2: 60, 4: 80, 8: 85}, claims.UNSURE),
        ({2: 40, 4: 60, 8: 100}, claims.UNSURE),
    ],
)
def test_a_row_nearer_to_few_tokens(results: Path, others: dict[int, int], status: str) -> None:
    find = light_findings.nearer_than_all("oat, no nesting", (2, 4))
    assert find().status == claims.MISSING
    save_control(control_cell("oat", 0, others), control_cell("oat, no nesting", 0, {8: 70}))
    assert (find().status, find().source) == (status, "control")
    assert find().ours.startswith(f"35 %, and {others[2] / 2:.0f} at 2, {others[4] / 2:.0f} at 4, ")
    other = control_cell("oat, no nesting", 0, {8: 70}, tokenizer_steps=2000)
    save_control(control_cell("oat", 0, others), other)
    assert find().status.endswith("(not only the tokens differ: tokenizer steps 8000 and 2000)")


def table_row(successes: dict[int, int], **changes: Any) -> dict[str, Any]:
    """A row of the light table without comparisons."""
    cell = control_cell("", 0, successes, tokenizer_steps=2000)
    return {**cell, "protocol": {"sampling": {"temperature": 0.0}}, **changes}


def test_all_that_is_compared_is_of_one_source(results: Path) -> None:
    """Policies of `control` and of the light table are not trained alike."""
    nearer = light_findings.nearer_than_all("oat, no nesting", (2, 4))
    stronger = light_findings.than_shortest("oat, no nesting", claims.is_larger)
    save_control(control_cell("oat", 0, {8: 114}))
    plain = table_row({8: 123})
    save_light(table_row({1: 66, 2: 98, 4: 96, 8: 99}), **{"oat, no nesting": plain})
    assert (nearer().status, nearer().source) == (claims.UNSURE, "policy_table")
    assert (stronger().status, stronger().source) == (claims.AGREES, "policy_table")
    assert nearer().ours.startswith("62 %, and 49 at 2, 48 at 4, 50 at all, temperature 0")


def test_rows_without_a_stored_comparison_are_compared_by_what_they_solved(results: Path) -> None:
    quest = light_findings.than_oat("quest", claims.is_larger)
    rows = [table_row({8: 120}), table_row({8: 100})]
    save_light(rows[0], quest=rows[1])
    assert "200 and 200 episodes, unpaired, of 1 and 1 seeds" in quest().ours
    for row, solved in zip(rows, ("1" * 120 + "0" * 80, "1" * 100 + "0" * 100), strict=True):
        row["budgets"][0]["solved"] = {"push": solved}
    save_light(rows[0], quest=rows[1])
    assert "50 and 60 %: +10 points" in quest().ours
    assert "the same 200 episodes of 1 and 1 seeds" in quest().ours
    assert quest().status == claims.AGREES


def test_a_trend_of_the_ablations_is_decided_by_all_pairs_that_are_there(results: Path) -> None:
    cells = [f"{horizon} actions, 8 tokens" for horizon in (64, 32, 16, 8)]
    find = light_findings.swept_trend("horizons-half", list(combinations(cells, 2)))
    assert find() == claims.NOT_MEASURED
    rows = {cells[0]: table_row({8: 80}), cells[1]: table_row({8: 99})}
    record.write_result("policy_sweep", seed=0, settings={}, results={"horizons-half": rows})
    assert find().status == claims.UNSURE
    rows[cells[3]] = table_row({8: 189})
    record.write_result("policy_sweep", seed=0, settings={}, results={"horizons-half": rows})
    assert find().status == claims.AGREES
    assert f"`{cells[0]}` and `{cells[3]}`: 40 and 94 %, +54 points" in find().ours
    assert cells[2] not in find().ours, "which was not measured"
    rows[cells[3]] = table_row({8: 20})
    record.write_result("policy_sweep", seed=0, settings={}, results={"horizons-half": rows})
    assert find().status == claims.DIFFERS
