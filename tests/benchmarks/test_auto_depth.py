"""The benchmark of `budget="auto"` on a tiny policy."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from benchmarks import auto_depth, record, report
from tests.policies import tiny


def test_rows_of_all_budgets_and_auto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(auto_depth, "MARGINS", (0.25, 1e6))
    data = tiny.write_dataset(tmp_path / "data")
    policy = tiny.make_policy("klt", oatkit.open_dataset(data, cache_dir=tmp_path / "cache"))
    policy.extras = {"split": {"held_out": 0.5, "seed": 0}, "train": {"steps": 0}}
    path = policy.save_pretrained(tmp_path / "policy")
    few = ["--observations", "3", "--repeats", "1", "--note", "It is untrained."]
    auto_depth.main(["--data", str(data), "--policies", str(path), *few])
    (name,) = found = record.read_results("auto_depth")
    assert name == "light, klt, 6 calls"
    rows = found[name]["rows"]
    assert [row["budget"] for row in rows] == [*policy.tokenizer.budgets, "auto", "auto"]
    assert [row["calls"] for row in rows[:-2]] == list(policy.tokenizer.budgets)
    assert rows[-3]["distance"] == 0
    assert rows[-3]["share_of_all"] == 1
    assert 6 >= rows[-2]["calls"] >= rows[-1]["calls"]
    assert "| light, klt, 6 calls, 0 steps | auto | 0.25 |" in report.section("auto_depth")
    assert "light, klt, 6 calls: It is untrained." in report.section("auto_depth")
