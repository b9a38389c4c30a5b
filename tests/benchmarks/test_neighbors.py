"""LeRobot's policies in a fast simulator, with a stand-in for LeRobot in their process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import neighbors, record, report_neighbors
from oatkit.errors import OatkitError

STANDIN = Path(__file__).parent / "standin_for_neighbors"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(STANDIN), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def run(*flags: str) -> dict[str, Any]:
    always = ["--tiny", "--data", "data", "--python", sys.executable]
    neighbors.main([*always, *flags])
    return record.read_results("neighbors")


def check_rules(row: dict[str, Any]) -> None:
    assert list(row["rules"]) == list(neighbors.RULES)
    for rule in row["rules"].values():
        assert rule["success"]["episodes"] == 4
        assert {task: len(solved) for task, solved in rule["solved"].items()} == {
            "near": 2,
            "far": 2,
        }
        assert rule["calls"] == (10 if row["kind"] == "diffusion" else 1)


def test_settings_are_tried_and_the_best_one_acts_by_every_rule(
    folder: Path, standin: None, capfd: pytest.CaptureFixture[str]
) -> None:
    found = run("--only", "act", "--seeds", "0")
    errors = {n: trial["held_out"]["mse"] for n, trial in found["trials"]["act"].items()}
    assert set(errors) == set(neighbors.TINY["act"])
    row = found["rows"]["act, seed 0"]
    assert row["setting"] == min(errors, key=errors.__getitem__)
    assert row["cpu_s"] >= 1
    check_rules(row)
    capfd.readouterr()
    assert run("--only", "act", "--seeds", "0") == found
    printed = capfd.readouterr().out
    assert "act, seed 0, 16 steps is finished" in printed
    assert "trial" not in printed
    section = report_neighbors.neighbors(record.read_result("neighbors"))
    assert "| ACT | 16 steps | 1 |" in section


def test_further_seeds_are_trained_for_the_steps_of_the_first(folder: Path, standin: None) -> None:
    run("--only", "act", "--seeds", "0")
    rows = run("--only", "act", "--seeds", "1", "--again")["rows"]
    assert rows["act, seed 1"]["steps"] == rows["act, seed 0"]["steps"]
    assert rows["act, seed 1"]["held_out"] != rows["act, seed 0"]["held_out"]


@pytest.mark.slow
def test_a_diffusion_reads_two_frames_and_acts_by_every_rule(folder: Path, standin: None) -> None:
    check_rules(run("--only", "diffusion", "--seeds", "0")["rows"]["diffusion, seed 0"])


def test_a_missing_environment_is_named(folder: Path) -> None:
    with pytest.raises(OatkitError, match="make test-lerobot"):
        neighbors.main(["--tiny", "--data", "data", "--python", "nowhere/python"])


def test_our_minutes_are_those_of_the_results(results: Path) -> None:
    cells = {
        "oat/0/8": {"row": "oat", "seconds": 300.0, "tokenizer_seconds": 780.0},
        "quest/0/8": {"row": "quest"},
    }
    record.write_result("control", seed=0, settings={}, results={"cells": cells})
    (said,) = report_neighbors.our_minutes()
    assert said == "Ours on `oat` was trained for 5.0 minutes, after 13.0 of its tokenizer."
    cells["oat/1/8"] = {"row": "oat", "seconds": 180.0, "tokenizer_seconds": 780.0}
    record.write_result("control", seed=0, settings={}, results={"cells": cells})
    said, why = report_neighbors.our_minutes()
    assert said == "Ours on `oat` was trained for 3.0 to 5.0 minutes, after 13.0 of its tokenizer."
    assert why.startswith("Where two times stand")
