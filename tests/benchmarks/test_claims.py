"""The status of every claim is what its JSON says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import claim_findings as claims
from benchmarks import light_findings, record, tokenizer_findings
from benchmarks.claims import CLAIMS
from benchmarks.reproduction import reproduction_page
from oatkit.evaluation.success_statistics import success_rate
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES

PAGE = Path(__file__).parents[2] / "docs/reproduction.md"
STATUSES = (claims.AGREES, claims.DIFFERS, claims.UNSURE, claims.MISSING, "cannot be run here (")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results, empty at first."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def statuses(page: str) -> dict[str, tuple[str, str]]:
    """What the table of claims of a page says: the claim to our numbers and the status."""
    part = page.split("## Claims")[1].split("## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| [")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {says: (ours, status) for _, says, _, ours, _, status in cells}


def test_every_status_of_the_page_is_what_its_json_says() -> None:
    shown = statuses(PAGE.read_text())
    assert shown == {claim.says: (found.ours, found.status) for claim, found in found_now()}
    for claim, found in found_now():
        assert claim.table in PAPER_TABLES
        assert found.status.startswith(STATUSES)
        assert bool(found.ours) == bool(found.source)
        if found.source:
            assert (record.RESULTS / f"{found.source}.json").exists()
    for name in (*PAPER_TABLES, *OWN_TABLES):
        assert f"### {name}\n" in PAGE.read_text()


def test_every_table_that_is_run_has_a_claim() -> None:
    claimed = {claim.table for claim in CLAIMS}
    assert {name for name, table in PAPER_TABLES.items() if table.work != "nothing"} <= claimed
    assert len({claim.says for claim in CLAIMS}) == len(CLAIMS)


def found_now() -> list[tuple[claims.Claim, claims.Found]]:
    return [(claim, claim.find()) for claim in CLAIMS]


def test_a_page_of_other_results_has_other_statuses(results: Path) -> None:
    """The test above can fail: one number of one JSON file changes what the page says."""
    stored = json.loads((PAGE.parents[1] / "benchmarks/results/policy_table.json").read_text())
    pair = stored["results"]["state"]["oat"]["against"]["1"]
    says = "`oat`: 8 tokens succeed more often than 1"
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says] == statuses(PAGE.read_text())[says]
    pair["low"], pair["high"] = -pair["high"], -pair["low"]
    (results / "policy_table.json").write_text(json.dumps(stored))
    assert statuses(reproduction_page())[says][1] == claims.DIFFERS
    assert statuses(PAGE.read_text())[says][1] == claims.AGREES


def test_nothing_is_claimed_without_results(results: Path) -> None:
    for _, found in found_now():
        assert found.ours == ""
        assert found.status.startswith((claims.MISSING, "cannot be run here ("))


def test_the_page_says_what_cannot_be_compared_and_how_rows_were_made() -> None:
    page = " ".join(PAGE.read_text().split())
    assert "our actions are clipped to [-1, 1]" in page
    assert "The real-robot half of the paper is absent." in page
    tables = [*record.read_results("policy_sweep").values(), record.read_results("policy_pusht")]
    tables += record.read_results("policy_table").values()
    tables.append(record.read_results("policy_robosuite"))
    for label, row in (item for rows in tables for item in rows.items()):
        temperature = row["protocol"]["sampling"]["temperature"]
        made = (row["tokens"], row["steps"], row["tokenizer_steps"], f"{temperature:g}")
        levels = " ".join(map(str, (row["settings"]["tokenizer"] or {}).get("levels", ())))
        cells = f"{f'{levels} ' if levels else ''}| {' | '.join(map(str, made))} |"
        assert f"| `{label}` | {cells}" in page


@pytest.mark.parametrize(
    ("low", "high", "larger", "nothing"),
    [
        (0.01, 0.2, claims.AGREES, claims.UNSURE),
        (0.06, 0.2, claims.AGREES, claims.DIFFERS),
        (-0.2, -0.06, claims.DIFFERS, claims.DIFFERS),
        (-0.04, 0.04, claims.UNSURE, claims.AGREES),
        (-0.2, 0.2, claims.UNSURE, claims.UNSURE),
    ],
)
def test_ends_of_intervals_decide(low: float, high: float, larger: str, nothing: str) -> None:
    assert claims.is_larger(low, high) == larger
    assert claims.is_nothing(low, high) == nothing


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
    assert found.status.startswith(f"{claims.MISSING} (policies of 226 and of 2500 steps")


def test_seeds_of_a_row_are_compared_together(results: Path) -> None:
    find = light_findings.than_oat("oat", claims.is_larger, budget=1)
    oat = light_row(2500, {"1": (-0.3, -0.1)})
    oat["against"]["1"]["seeds"] = 2
    save_light(oat, **{"oat, seed 1": light_row(2500, {})})
    assert "temperature 0, 2 seeds, 2500 steps" in find().ours
    save_light(oat, **{"oat, seed 1": light_row(100, {})})
    assert find().status.startswith(f"{claims.MISSING} (policies of 100 and of 2500 steps")


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
        "20 and 60 %: +40 points (+31 to +48), 200 and 200 episodes of 1 and 1 seeds, "
        "temperature 0, 100 steps"
    )


def control_cell(
    row: str, seed: int, successes: dict[int, int], tokenizer_steps: int | None = 8000
) -> dict[str, Any]:
    """A cell of `benchmarks.control` under the paper's protocol, with 200 episodes a budget."""
    rates = [
        {"budget": budget, "success": asdict(success_rate(number, 200))}
        for budget, number in successes.items()
    ]
    made = {"steps": 2500, "tokenizer_steps": tokenizer_steps, "episodes": 50}
    return {"row": row, "seed": seed, "rule": "half", "budgets": rates, **made}


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
        "70 and 50 %: -20 points (-27 to -12), 200 and 600 episodes of 1 and 3 seeds, "
        "temperature 0, 2500 steps"
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
    assert quest().status.startswith(f"{claims.MISSING} (tokenizers of 2000 and of 8000 steps")
    save_control(own, control_cell("bin", 0, {128: 20}, tokenizer_steps=None))
    assert light_findings.than_oat("bin", claims.is_larger)().status == claims.AGREES


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


def rate_distortion(errors: dict[str, dict[str, list[float]]]) -> None:
    found = {
        data: {
            kind: {
                "steps": 10,
                "budgets": [{"mse": error, "tokens": 16} for error in values],
            }
            for kind, values in kinds.items()
        }
        for data, kinds in errors.items()
    }
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results=found)


def test_every_dataset_decides_on_errors(results: Path) -> None:
    falling, rising = [3.0, 2.0, 1.0], [3.0, 1.0, 2.0]
    rate_distortion({"metaworld": {"oat": falling, "oat-pow2": falling}})
    assert tokenizer_findings.falls("oat")().status == claims.AGREES
    assert tokenizer_findings.tracks().status == claims.AGREES
    rate_distortion(
        {
            "metaworld": {"oat": falling, "oat-pow2": falling},
            "pusht": {"oat": rising, "oat-pow2": [3.0, 1.3, 2.0]},
        }
    )
    assert tokenizer_findings.falls("oat")().status == claims.DIFFERS
    assert "it falls on MetaWorld" in tokenizer_findings.falls("oat")().ours
    assert tokenizer_findings.tracks().status == claims.DIFFERS
    assert "1.30 on PushT (10 steps)" in tokenizer_findings.tracks().ours


def test_one_sequence_that_does_not_decode_is_enough(results: Path) -> None:
    rows = {kind: {"tried": 9, "decoded": 9} for kind in ("bin", "oat")}
    rows["fast"] = {"tried": 9, "decoded": 8}
    record.write_result("decodability", seed=0, settings={}, results=rows)
    assert tokenizer_findings.decodes().status == claims.AGREES
    rows["oat"]["decoded"] = 8
    record.write_result("decodability", seed=0, settings={}, results=rows)
    assert tokenizer_findings.decodes().status == claims.DIFFERS


def test_calls_are_those_that_the_paper_lists(results: Path) -> None:
    def row(calls: dict[int, float]) -> dict[str, Any]:
        budgets = [{"budget": budget, "calls": number} for budget, number in calls.items()]
        return {"budgets": budgets, "protocol": {"horizon": 32}}

    rows = {"bin": row({128: 32.0}), "oat-pow2": row({1: 1.0, 8: 4.0})}
    record.write_result("policy_table", seed=0, settings={}, results={"state": rows})
    assert light_findings.calls_of_schemes().status == claims.AGREES
    rows["oat-pow2"] = row({1: 1.0, 8: 5.0})
    record.write_result("policy_table", seed=0, settings={}, results={"state": rows})
    assert light_findings.calls_of_schemes().status == claims.DIFFERS


def test_independent_differences_are_newcombes() -> None:
    """The example of Newcombe (1998): 56 of 70 against 48 of 80."""
    first, second = (asdict(success_rate(*counts)) for counts in ((48, 80), (56, 70)))
    change, low, high = claims.difference(first, second)
    assert (round(change, 4), round(low, 4), round(high, 4)) == (0.2, 0.0524, 0.3339)
