"""Fitting as data grow, at the smallest scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import fit_streams, record, report

pytest.importorskip("zarr", reason="the benchmark writes zarr")


def test_every_job_has_a_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del folder  # where the benchmark writes
    monkeypatch.setattr(fit_streams, "JOBS", ("statistics", "fast"))
    monkeypatch.setattr(fit_streams, "in_new_process", fit_streams.measure)
    fit_streams.main(["--frames", "4000"])
    found = record.read_result("fit_streams")["results"]["4000"]
    assert list(found) == ["open", "statistics", "fast"]
    assert all(took["peak_mb"] >= took["start_mb"] for took in found.values())
    section = report.section("fit_streams")
    assert section.count("| 4,000 |") == 3
