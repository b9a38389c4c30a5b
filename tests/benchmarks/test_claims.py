"""The status of every claim is what its JSON says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import claim_findings as claims
from benchmarks import record
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
    return {says: (ours, status) for _, says, _, ours, status in cells}


def test_every_status_of_the_page_is_what_its_json_says() -> None:
    shown = statuses(PAGE.read_text())
    assert shown == {claim.says: (found.ours, found.status) for claim, found in found_now()}
    for claim, found in found_now():
        assert claim.table in PAPER_TABLES
        assert found.status.startswith(STATUSES)
    for name in (*PAPER_TABLES, *OWN_TABLES):
        assert f"### {name}\n" in PAGE.read_text()


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
    return {"steps": steps, "against": against, "protocol": protocol, "budgets": evaluated}


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
    found = claims.than_oat("oat", claims.is_larger, budget=1)()
    assert found.status == status
    assert "200 episodes, temperature 0, 2500 steps" in found.ours
    path = results / "policy_table.json"
    assert json.loads(path.read_text())["results"]["state"]["oat"]["steps"] == 2500


def test_rows_that_were_not_trained_alike_are_not_compared(results: Path) -> None:
    save_light(light_row(2500, {}), bin=light_row(226, {"128": (-0.6, -0.5)}))
    found = claims.than_oat("bin", claims.is_larger)()
    assert found.status.startswith(f"{claims.MISSING} (226 steps of training against 2500")


def test_seeds_of_a_row_are_compared_together(results: Path) -> None:
    find = claims.than_oat("oat", claims.is_larger, budget=1)
    oat = light_row(2500, {"1": (-0.3, -0.1)})
    oat["against"]["1"]["seeds"] = 2
    save_light(oat, **{"oat, seed 1": light_row(2500, {})})
    assert "temperature 0, 2 seeds, 2500 steps" in find().ours
    save_light(oat, **{"oat, seed 1": light_row(100, {})})
    assert find().status.startswith(f"{claims.MISSING} (100 steps of training against 2500")


def test_ablations_in_closed_loop_decide_too(results: Path) -> None:
    find = claims.swept("codebook", "levels 8 6 5", "levels 8 5 5 5", claims.is_larger)
    assert find().status == claims.MISSING
    rows = {
        row: {
            "steps": 100,
            "protocol": {"sampling": {"temperature": 0.0}},
            "budgets": [{"success": asdict(success_rate(successes, 200))}],
        }
        for row, successes in (("levels 8 6 5", 40), ("levels 8 5 5 5", 120))
    }
    record.write_result("policy_sweep", seed=0, settings={}, results={"codebook": rows})
    assert find().status == claims.AGREES
    assert find().ours == (
        "20 and 60 %: +40 points (+31 to +48), 200 and 200 episodes, temperature 0, 100 steps"
    )


def test_independent_differences_are_newcombes() -> None:
    """The example of Newcombe (1998): 56 of 70 against 48 of 80."""
    first, second = (asdict(success_rate(*counts)) for counts in ((48, 80), (56, 70)))
    change, low, high = claims.difference(first, second)
    assert (round(change, 4), round(low, 4), round(high, 4)) == (0.2, 0.0524, 0.3339)
