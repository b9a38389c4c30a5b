"""The page with the paper's numbers beside ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oatkit.measure.reports.reproduction_report import (
    sentences,
    value_words,
    write_reproduction_report,
)
from oatkit.types import BenchmarkRow, Reproduction
from tests.types.test_reproduction_records import NUMBER


def test_numbers_intervals_and_the_command_are_on_the_page(tmp_path: Path) -> None:
    far = replace(NUMBER, row="bin", budget=None, paper=14.4)
    record = Reproduction("light-policies", {"scale": "paper"}, {"oatkit": "1"}, (NUMBER, far))
    summary = [BenchmarkRow("oat", 8, {}, {}, 0.5, 1.0)], [BenchmarkRow("oat", 8, {}, {}, 0.6, 2.0)]
    path = tmp_path / "t.html"
    write_reproduction_report(record, summary, "A title", path, "oatkit reproduce t")
    page = path.read_text()
    assert "<td>oat at 8</td><td>50.0</td><td>60.0</td><td>1.0</td><td>2.0</td>" in page
    cells = ("oat", "8", "50.0 (40 - 60)", "56.3", "agrees", "100", "1")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "<td>14.4</td><td>does not</td>" in page
    assert "1 of 2 numbers of the paper lie within our 95 % intervals." in page
    assert "oatkit reproduce t" in page


def test_other_data_agrees_with_nothing() -> None:
    number = replace(NUMBER, paper=None, low=None, high=None, value=0.123456)
    assert value_words(number) == "0.123"
    (said,) = sentences(Reproduction("t", {}, {}, (number,)))
    assert "no row of this page can agree" in said
