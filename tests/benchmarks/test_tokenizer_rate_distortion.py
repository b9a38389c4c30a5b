"""Rate and distortion at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record, report
from benchmarks import tokenizer_rate_distortion as benchmark


def test_rows_of_the_papers_table_are_measured_and_skipped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("oat", "klt", "fast, fitted", "splits")
    command = ["--scale", "tiny", "--metaworld", "data", "--pusht", "data", "--only"]
    command += [f"metaworld/{name}" for name in names]
    benchmark.main([*command, "--steps", "2"])
    rows = record.read_results("tokenizer_rate_distortion")["metaworld"]
    assert set(rows) == set(names)
    assert (rows["oat"]["steps"], rows["klt"]["steps"]) == (2, 0)
    assert [b["budget"] for b in rows["oat"]["budgets"]] == [1, 2, 4, 8, 16]
    for row in rows["klt"]["budgets"]:
        assert 0 < row["entropy_bits"] <= row["bits"]
        assert row["fitted_gaussian_mse_normalized"] >= 0.999 * row["gaussian_mse_normalized"]
    folders = Path("out/bench/reproduction/tiny/metaworld/tokenizers")
    assert (folders / "tiny-oat-horizon32-num_tokens16-levels8865-steps2/config.json").exists()
    page = report.section("tokenizer_rate_distortion")
    assert "| entropy of `klt` |" in page
    assert "| Gaussian, fitted |" in page
    benchmark.main(command)
    assert "metaworld/oat is finished" in capsys.readouterr().out


def test_other_benchmarks_find_the_tokenizers() -> None:
    found = benchmark.tokenizer_dir("metaworld", "oat, long")
    name = "small-oat-horizon32-num_tokens16-levels8865-steps11000"
    assert found == Path("out/bench/reproduction/small/metaworld/tokenizers", name)
