"""The load benchmark with a tiny policy in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import record, report, serve_load
from oatkit import load_policy
from oatkit.serve import ServeConfig, serving


@contextmanager
def served_here(policy: Path, max_batch: int) -> Iterator[str]:
    with serving(load_policy(policy), ServeConfig(port=0, max_batch=min(max_batch, 2))) as url:
        yield url


def test_all_loads_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path / "stored")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serve_load, "served", served_here)
    monkeypatch.setattr(serve_load, "DEADLINES", (10.0,))
    serve_load.main(["--preset", "tiny", "--clients", "3", "--seconds", "0.5"])
    found = record.read_results("serve_load")
    assert found["batched"]["clients"] == 3
    assert found["batched"]["errors"] == 0
    assert 0 < found["batched"]["p50_ms"] <= found["batched"]["p99_ms"]
    assert 0 < found["batched"]["slowest_over_mean"] <= 1
    (ms,) = found["deadlines_ms"]
    assert float(ms) == np.ceil(10 * found["first_prefix"]["p99_ms"])
    assert 0 <= found["deadlines_ms"][ms]["in_time"] <= 1
    assert found["first_prefix"]["mean_budget"] == 1
    assert found["unmet"] == serve_load.unmet(found)
    page = report.section("serve_load")
    assert "| batched | 3 |" in page
    assert f"| deadline {ms} ms | 1 |" in page


def test_requirements_that_are_not_met_are_named() -> None:
    good: dict[str, Any] = {"errors": 0, "slowest_over_mean": 0.6, "in_time": 0.995}
    results = {
        "batched": good,
        "one_at_a_time": good,
        "times_faster": 3.1,
        "deadlines_ms": {"30": good},
    }
    assert serve_load.unmet(results) == []
    bad = {"errors": 1, "slowest_over_mean": 0.4, "in_time": 0.9}
    results |= {"times_faster": 2.9, "batched": bad, "deadlines_ms": {"30": bad}}
    assert serve_load.unmet(results) == [
        "3 times the replies of one at a time",
        "the slowest client has half of the mean",
        "no errors (batched)",
        "no errors (30)",
        "99 % within 30 ms",
    ]
