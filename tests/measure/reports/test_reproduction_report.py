"""The page with the paper's numbers beside ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oatkit.measure.reports.reproduction_report import (
    sentences,
    value_words,
    write_reproduction_report,
)
from oatkit.types import Reproduction, ReproductionSummary, SummarizedRow
from tests.types.test_reproduction_records import NUMBER


def test_numbers_intervals_and_the_command_are_on_the_page(tmp_path: Path) -> None:
    far = replace(NUMBER, row="bin", budget=None, paper=14.4)
    record = Reproduction("light-policies", {"scale": "paper"}, {"oatkit": "1"}, (NUMBER, far))
    row = SummarizedRow("oat", 8, 1.0, 50.0, 1.0, 60.0, 2.0, 2.5, num_ranked=3, num_rows=7)
    summary = ReproductionSummary((row,), ("light-libero", "b"), ("light-libero", "b", "Cups"))
    path = tmp_path / "t.html"
    write_reproduction_report(record, summary, "A title", path, "oatkit reproduce t")
    page = path.read_text()
    means = ("oat at 8", "1", "50.0", "60.0", "1.0", "2.0", "2.5", "3 of 7")
    assert "".join(f"<td>{cell}</td>" for cell in means) in page
    assert "Averages and ranks are over light-libero, b, each counted the same." in page
    assert "The ranks that the paper prints are also over Cups." in page
    cells = ("oat", "8", "50.0 (40 - 60)", "56.3", "agrees", "100", "1")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "<td>14.4</td><td>does not</td>" in page
    assert "1 of 2 numbers of the paper lie within our 95 % intervals." in page
    assert "oatkit reproduce t" in page


def test_other_data_agrees_with_nothing() -> None:
    number = replace(NUMBER, paper=None, low=None, high=None, value=0.123456)
    assert value_words(number) == "0.123"
    (said,) = sentences(Reproduction("t", {}, {}, (number,)), {})
    assert "no row of this page can agree" in said


def test_numbers_of_other_benchmarks_are_named_and_reports_linked(tmp_path: Path) -> None:
    number = replace(NUMBER, place="metaworld", paper=None)
    beside = {("oat", "8"): {"light-libero": 56.3, "light-metaworld": 24.4}}
    record = Reproduction("t", {"scale": "small"}, {}, (number, replace(number, row="klt")))
    path, report = tmp_path / "t.html", tmp_path / "metaworld" / "compared" / "report.html"
    how = {"beside": beside, "reports": [report]}
    write_reproduction_report(record, ReproductionSummary(), "T", path, "oatkit", **how)
    page = path.read_text()
    assert (
        "<td>50.0 (40 - 60)</td><td>light-libero 56.3, light-metaworld 24.4</td><td></td>" in page
    )
    assert "<td>klt</td><td>8</td><td>50.0 (40 - 60)</td><td></td><td></td>" in page
    assert "Demonstrations, tasks and sizes are not the same" in page
    assert '<a href="metaworld/compared/report.html">' in page
