"""The page of a comparison, from records made by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from oatkit.measure.reports.comparison_report import write_comparison_report
from tests.measure.reports.pages import Page
from tests.measure.reports.records import comparison, kind, ordered_kind


def test_only_sections_with_content_are_there(tmp_path: Path) -> None:
    page, *pictures = write_comparison_report(comparison(kind("bin", {8: 0.1})), tmp_path)
    assert page == tmp_path / "report.html"
    assert [picture.name for picture in pictures] == [
        *("rate_distortion.png", "dimensions.png", "vocabulary.png")
    ]
    text = page.read_text()
    assert re.findall("<h2>(.*?)</h2>", text) == [
        *("In short", "Error against tokens and bits", "Errors per dimension", "Vocabulary"),
        *("In numbers", "How this was made"),
    ]
    assert Page(text).open == []


def test_the_lab_of_the_folder_is_shown(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/index.html").write_text("<p>a lab</p>")
    made = comparison(ordered_kind("klt", (1.0, 0.4, 0.2)))
    page = write_comparison_report(made, tmp_path)[0].read_text()
    assert 'srcdoc="&lt;p&gt;a lab&lt;/p&gt;"' in page
    assert "A chunk token by token" in page


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    made = replace(comparison(kind("bin", {8: 0.1})), data="<script>", dimensions=("<b>", "y"))
    text = write_comparison_report(made, tmp_path)[0].read_text()
    assert "<code>&lt;script&gt;</code>" in text
    assert "<b>" not in re.findall("<td>(.*?)</td>", text)
