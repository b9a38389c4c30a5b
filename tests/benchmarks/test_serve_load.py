"""The load benchmark with a tiny policy in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import record, report, serve_load
from oatkit import load_policy
from oatkit.serve import ServeConfig, serving


@contextmanager
def served_here(policy: Path, max_batch: int) -> Iterator[str]:
    with serving(load_policy(policy), ServeConfig(port=0, max_batch=min(max_batch, 2))) as url:
        yield url


def test_all_loads_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(serve_load, "served", served_here)
    monkeypatch.setattr(serve_load, "DEADLINES_MS", (1000.0,))
    serve_load.main(["--preset", "tiny", "--clients", "3", "--seconds", "0.5"])
    found = record.read_results("serve_load")
    assert found["batched"]["clients"] == 3
    assert found["batched"]["errors"] == 0
    assert 0 < found["batched"]["p50_ms"] <= found["batched"]["p99_ms"]
    assert 0 < found["batched"]["slowest_over_mean"] <= 1
    assert 0 <= found["deadlines_ms"]["1000"]["in_time"] <= 1
    page = report.serve_load(report.load("serve_load"))
    assert "| batched | 3 |" in page
    assert "| deadline 1000 ms | 1 |" in page
