"""Curves of `oat`: errors of training and held-out episodes by steps and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import oat_curves as benchmark
from benchmarks import record, report
from oatkit.jobs.policy_rows import PolicyRow


def test_rows_are_measured_saved_one_by_one_and_skipped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"small, 2 steps": PolicyRow("oat", tokenizer_steps=2), "klt": PolicyRow("klt")}
    monkeypatch.setattr(benchmark, "ROWS", rows)
    benchmark.main(["--metaworld", "data"])
    found = record.read_results("oat_curves")["metaworld"]
    assert list(found) == list(rows)
    assert (found["small, 2 steps"]["steps"], found["klt"]["steps"]) == (2, None)
    for row in found.values():
        assert row["budgets"] == [1, 2, 4, 8, 16]
        assert len(row["train"]) == len(row["held_out"]) == 5
    # klt has seen the training episodes; two steps teach oat nothing
    assert found["klt"]["train"][-1] < found["small, 2 steps"]["train"][-1]
    assert "| oat, small, 2 steps |" in report.section("oat_curves")
    benchmark.main(["--metaworld", "data"])
    assert capsys.readouterr().out.count("is finished") == 2


def test_only_named_rows_of_given_datasets_are_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "ROWS", {"klt": PolicyRow("klt")})
    benchmark.main(["--metaworld", "data", "--cr5", "data", "--only", "cr5/klt"])
    assert list(record.read_results("oat_curves")) == ["cr5"]
