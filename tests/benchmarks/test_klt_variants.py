"""Ways to fit and to encode `klt`, on few chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

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
