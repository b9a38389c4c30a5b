"""The results page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record, report


def test_every_result_has_a_section_and_the_page_is_in_their_order() -> None:
    page = report.results_page()
    stored = {path.stem for path in record.RESULTS.glob("*.json")}
    sections = [report.section(name) for name in report.SECTIONS if name in stored]
    assert all(text in page for text in sections)
    assert sorted(sections, key=page.index) == sections


def test_results_that_are_not_measured_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    assert report.results_page() == report.INTRODUCTION
