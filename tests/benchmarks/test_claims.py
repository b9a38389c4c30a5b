"""The status of every claim is what its JSON says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import claims, record
from benchmarks.reproduction import reproduction_page
from oatkit.evaluation.success_statistics import success_rate
from oatkit.jobs.paper_tables import PAPER_TABLES
from oatkit.storage.records import write_record
from oatkit.types import ReproducedNumber, Reproduction

STATUSES = (claims.AGREES, claims.DIFFERS, claims.UNSURE, claims.MISSING, "cannot be run here (")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results, empty at first."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def test_every_claim_is_of_a_table_and_has_a_status() -> None:
    page = reproduction_page()
    for claim in claims.CLAIMS:
        assert claim.table in PAPER_TABLES
        found = claim.find()
        assert found.status.startswith(STATUSES)
        assert f"| {claim.says} | {claim.paper} |" in page
        assert f"| {found.status} |" in page
    for name in PAPER_TABLES:
        assert f"### {name}\n" in page


def test_nothing_is_claimed_without_results(results: Path) -> None:
    for claim in claims.CLAIMS:
        found = claim.find()
        assert found.ours == ""
        assert found.status.startswith((claims.MISSING, "cannot be run here ("))


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
    return {"steps": steps, "against": against, "protocol": protocol}


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
    found = claims.than_oat("oat", "1", claims.is_larger)()
    assert found.status == status
    assert "200 episodes, temperature 0, 2500 steps" in found.ours
    path = results / "policy_table.json"
    assert json.loads(path.read_text())["results"]["state"]["oat"]["steps"] == 2500


def test_rows_that_were_not_trained_alike_are_not_compared(results: Path) -> None:
    save_light(light_row(2500, {}), bin=light_row(226, {"128": (-0.6, -0.5)}))
    found = claims.than_oat("bin", "128", claims.is_larger)()
    assert found.status.startswith(f"{claims.MISSING} (226 steps of training against 2500")


def test_records_of_reproduce_decide_too(results: Path) -> None:
    find = claims.reproduced("codebook", "levels 8 6 5", "levels 8 5 5 5", claims.is_larger)
    assert find().status == claims.MISSING
    numbers = tuple(
        ReproducedNumber(row, None, "metaworld", value, value - 5, value + 5, None, 100, 0.0)
        for row, value in (("levels 8 6 5", 20.0), ("levels 8 5 5 5", 60.0))
    )
    found = Reproduction("codebook", {"episodes": 50, "images": False}, {}, numbers)
    write_record(results / "reproduce_codebook.json", found)
    assert find().status == claims.AGREES
    assert "20 and 60 %: +40 points (+33 to +47), 50 a task" in find().ours


def test_independent_differences_are_newcombes() -> None:
    """The example of Newcombe (1998): 56 of 70 against 48 of 80."""
    first, second = (asdict(success_rate(*counts)) for counts in ((48, 80), (56, 70)))
    change, low, high = claims.difference(first, second)
    assert (round(change, 4), round(low, 4), round(high, 4)) == (0.2, 0.0524, 0.3339)
