"""Curves of `oat`: errors of training and held-out episodes by steps and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import oat_curves as benchmark
from benchmarks import record, report, report_tokenizers
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


def test_what_oat_lacks_is_said_from_the_rows_that_are_there() -> None:
    def row(held_out: list[float], train: list[float]) -> dict[str, object]:
        sizes = {"kind": "oat", "steps": 8000, "parameters": 1000, "seconds": 60.0}
        return {**sizes, "held_out": held_out, "train": train}

    rows = {
        "small, 2000 steps": row([8.0, 5.0, 4.0, 3.0, 2.0], [8.0, 5.0, 4.0, 3.0, 2.0]),
        "small, 8000 steps": row([4.0, 4.0, 3.0, 2.0, 1.0], [3.0, 2.0, 1.5, 1.0, 0.5]),
        "klt": row([2.0, 2.0, 1.0, 1.0, 0.1], [1.0] * 5) | {"steps": None},
    }
    page = report_tokenizers.oat_curves({"results": {"cr5": rows}})
    said = " ".join(page.split())
    assert "`oat` leaves 2, 2, 3, 2, 10 times what `klt` leaves of held-out episodes." in said
    assert "Of its error 25 to 50 % is what it knows of its training episodes by heart." in said
    assert "Four times the steps (2,000 to 8,000) changed it by -50 to -20 %." in said
    assert "parameters" not in said.partition("`oat` leaves")[2]
    del rows["klt"]
    page = report_tokenizers.oat_curves({"results": {"cr5": rows}})
    assert "times what `klt` leaves" not in " ".join(page.split())
