"""Ways to fit and to encode `klt`, on few chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks import klt_variants as benchmark
from benchmarks import record, report
from oatkit.tokenizers.klt import KltConfig


def test_ways_are_measured_once_and_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = partial(KltConfig, levels=(4, 4))
    monkeypatch.setattr(benchmark, "KltConfig", config)
    names = ["as it is", "16 paths", "cells chosen by their own error, one fold"]
    ways = {name: benchmark.WAYS[name] for name in names}
    monkeypatch.setattr(benchmark, "WAYS", ways)
    benchmark.main(["--data", "pusht=data", "--only", *names[:2]])
    first = record.read_results("klt_variants")["pusht"]
    assert list(first) == names[:2]
    assert first["as it is"]["cells"] == first["16 paths"]["cells"]
    assert first["as it is"]["mse"] != first["16 paths"]["mse"]
    benchmark.main(["--data", "pusht=data"])
    rows = record.read_results("klt_variants")["pusht"]
    assert list(rows) == names
    assert rows["as it is"] == first["as it is"], "what is there stays"
    assert len(rows[names[2]]["cells"]) == 16
    assert "| 16 paths |" in report.section("klt_variants")


def test_drawn_chunks_have_the_moments_of_the_training_chunks_and_an_ideal_code_to_compare_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk_BTA = torch.randn(4000, 4, 2, generator=torch.Generator().manual_seed(1)).cumsum(1) + 3
    drawn = benchmark.gaussian_chunks(benchmark.Chunks(walk_BTA, walk_BTA[:3000]))
    assert [len(part) for part in drawn] == [4000, 3000]
    for part in drawn:
        torch.testing.assert_close(part.mean(0), walk_BTA.mean(0), atol=0.15, rtol=0)
        covariances = (torch.cov(each.flatten(1).T) for each in (part, walk_BTA))
        torch.testing.assert_close(*covariances, atol=0.4, rtol=0)

    monkeypatch.setattr(benchmark, "KltConfig", partial(KltConfig, levels=(4, 4)))
    name = "as it is, on Gaussian chunks"
    benchmark.main(["--data", "pusht=data", "--only", name])
    row = record.read_results("klt_variants")["pusht"][name]
    assert all(ideal < error for ideal, error in zip(row["gaussian"], row["mse"], strict=True))
    ratio = row["mse"][0] / row["gaussian"][0]
    assert f"| {name} | {ratio:.2f} |" in report.section("klt_variants")
