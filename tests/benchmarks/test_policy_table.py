"""The lightweight table at the smallest scale, in a fast simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import policy_table, record, report
from benchmarks.claims import CLAIMS
from benchmarks.closed_loop import is_finished
from oatkit.jobs.reproduction_scales import SCALES
from oatkit.jobs.row_runs import RowRuns
from tests.benchmarks.tiny import TINY


def run(*only: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    policy_table.main(["--only", *only, *TINY, "--data", "data", *more])
    return record.read_results("policy_table")["state"]


def policies() -> set[str]:
    return {path.name for path in Path("out/bench/reproduction/tiny/metaworld/policies").iterdir()}


def test_rows_are_saved_compared_and_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run("oat-pow2", more=("--episodes", "1"))
    assert "against" not in first["oat-pow2"]
    rows = run("oat", "oat-pow2")
    assert "state/oat-pow2 is finished" in capsys.readouterr().out
    assert list(rows) == ["oat", "oat-pow2"]  # in the table's order
    own = {name: row["settings"] for name, row in rows.items()}
    assert {name: found["episodes"] for name, found in own.items()} == {"oat": 2, "oat-pow2": 1}
    assert own["oat"]["tokenizer"] == {"num_tokens": 8, "levels": [8, 5, 5, 5]}
    assert [b["budget"] for b in rows["oat"]["budgets"]] == [1, 2, 4, 8]
    assert [b["calls"] for b in rows["oat"]["budgets"]] == [1, 2, 4, 8]
    assert [b["calls"] for b in rows["oat-pow2"]["budgets"][:4]] == [1, 2, 3, 4]
    assert rows["oat-pow2"]["budgets"][4]["budget"] == "auto"
    assert set(rows["oat"]["against"]) == {"1", "2", "4"}
    pair = rows["oat-pow2"]["against"]["auto"]
    assert (pair["first"], pair["second"]) == ("oat at 8", "oat-pow2 at auto")
    assert pair["episodes"] == 2  # two tasks, one episode that both have
    section = report.section("policy_table")
    assert "| `oat-pow2` | auto |" in section
    steps = rows["oat"]["steps"]
    assert f"| `oat` | 8 | {steps} | 0 | 1 | 1 | 1 |" in section


def test_seeds_and_temperatures_are_rows_of_their_own(folder: Path) -> None:
    rows = run("oat", "quest", more=("--seeds", "0", "1", "--temperatures", "0", "1"))
    assert list(rows) == [
        f"{name}{temperature}{seed}"
        for name in ("quest", "oat")
        for temperature in ("", ", temperature 1")
        for seed in ("", ", seed 1")
    ]
    assert {label: row["settings"]["seed"] for label, row in rows.items()}["oat, seed 1"] == 1
    assert rows["oat, temperature 1"]["protocol"]["sampling"]["temperature"] == 1
    pair = rows["quest, temperature 1"]["against"]["16"]
    assert (pair["episodes"], pair["seeds"]) == (8, 2)  # of two tasks, two episodes each
    assert "against" not in rows["quest, seed 1"]
    assert len(policies()) == 4
    each = [
        100 * rows[label]["budgets"][0]["success"]["rate"] for label in ("quest", "quest, seed 1")
    ]
    cells = f"| `quest` | 16 | 4 | 0 | 2 ({min(each):.1f} to {max(each):.1f}) | 16 |"
    assert cells in report.section("policy_table")


def test_rows_that_share_a_policy(folder: Path) -> None:
    forced, own = "oat, 16 tokens, powers of two at inference", "oat, 16 tokens"
    with pytest.warns(UserWarning, match="the policy was trained to generate"):
        rows = run(own, forced, "fast", "fast, relaxed")
    assert [b["calls"] for b in rows[forced]["budgets"]] == [1, 2, 3, 4, 5]
    assert [b["calls"] for b in rows[own]["budgets"]] == [1, 2, 4, 8, 16]
    assert rows["fast, relaxed"]["failed"] == 0
    assert len(policies()) == 2


def test_claims_find_what_a_run_saves(folder: Path) -> None:
    """A claim that asks for a budget by another name than the results would never be measured."""
    run("oat", "quest", "fast", "bin", "oat, no nesting")
    light = [claim for claim in CLAIMS if claim.table in ("light-policies", "ordering")]
    here = [claim for claim in light if not claim.says.startswith("RoboMimic")]
    found = {claim.says: claim.find() for claim in here}
    assert sum(one.ours != "" for one in found.values()) == 9
    for one in found.values():
        assert one.ours or one.status.startswith("cannot be run here")


def test_a_finished_row_of_other_steps_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    runs = RowRuns(SCALES["small"].changed(steps=100, tokenizer_steps=50), "small", Path("out"))
    oat, fitted = policy_table.TABLE.rows["oat"], policy_table.TABLE.rows["bin"]
    assert not is_finished("oat", None, runs, oat)
    assert is_finished("oat", {"steps": 100, "tokenizer_steps": 50}, runs, oat)
    assert is_finished("bin", {"steps": 226, "tokenizer_steps": 0}, runs, fitted)
    assert capsys.readouterr().out.splitlines() == [
        "oat is finished; --again measures it again",
        "bin is finished with 226 steps and 0 of its tokenizer, not 100 and 0; --again measures it "
        "again",
    ]
