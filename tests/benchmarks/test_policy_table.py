"""The lightweight table at the smallest scale, in a fast simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import policy_table, record, report
from tests.benchmarks.tiny import TINY


def run(*only: str, minutes: str = "15") -> dict[str, Any]:
    policy_table.main(["--only", *only, *TINY, "--minutes", minutes, "--data", "data"])
    return record.read_results("policy_table")["state"]


def test_rows_are_saved_compared_and_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run("oat-pow2")
    assert "against" not in first["oat-pow2"]
    rows = run("oat", "oat-pow2", minutes="7")
    assert "state/oat-pow2 is finished" in capsys.readouterr().out
    assert list(rows) == ["oat", "oat-pow2"]  # in the table's order
    own = {name: row["settings"] for name, row in rows.items()}
    assert {name: found["minutes"] for name, found in own.items()} == {"oat": 7, "oat-pow2": 15}
    assert own["oat"]["tokenizer"] == {"num_tokens": 8, "levels": [8, 5, 5, 5]}
    assert [b["budget"] for b in rows["oat"]["budgets"]] == [1, 2, 4, 8]
    assert [b["calls"] for b in rows["oat"]["budgets"]] == [1, 2, 4, 8]
    assert [b["calls"] for b in rows["oat-pow2"]["budgets"][:4]] == [1, 2, 3, 4]
    assert rows["oat-pow2"]["budgets"][4]["budget"] == "auto"
    assert set(rows["oat"]["against"]) == {"1", "2", "4"}
    pair = rows["oat-pow2"]["against"]["auto"]
    assert (pair["first"], pair["second"]) == ("oat at 8", "oat-pow2 at auto")
    assert pair["episodes"] == 4  # two tasks, two episodes
    section = report.section("policy_table")
    assert "| `oat-pow2` | auto |" in section
    steps = rows["oat"]["steps"]
    assert f"| `oat` | 8 | {steps} | 0 | 1 | 1 |" in section


def test_rows_that_share_a_policy(folder: Path) -> None:
    forced, own = "oat, 16 tokens, powers of two at inference", "oat, 16 tokens"
    with pytest.warns(UserWarning, match="the policy was trained to generate"):
        rows = run(own, forced, "fast, relaxed")
    assert not policy_table.policy_dir("state", forced).joinpath("config.json").exists()
    assert [b["calls"] for b in rows[forced]["budgets"]] == [1, 2, 3, 4, 5]
    assert [b["calls"] for b in rows[own]["budgets"]] == [1, 2, 4, 8, 16]
    assert rows["fast, relaxed"]["failed"] == 0
    strict, relaxed = (policy_table.policy_dir("state", name) for name in ("fast", "fast, relaxed"))
    assert (strict / "config.json").exists()
    assert not (relaxed / "config.json").exists()
