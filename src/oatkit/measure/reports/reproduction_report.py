"""The page of `oatkit reproduce`: the paper's numbers beside ours, from the record."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from oatkit.measure.reports.html_page import bullets, how_made, page, table
from oatkit.types import BenchmarkRow, ReproducedNumber, Reproduction, budget_name

Summary = tuple[Sequence[BenchmarkRow], Sequence[BenchmarkRow]]
"""Averages and mean ranks of our rows, and of the same rows in the paper."""


def write_reproduction_report(
    record: Reproduction, summary: Summary, title: str, path: Path, command: str
) -> Path:
    """Write the page of a table.

    Args:
        record: What was found.
        summary: What its columns give together.
        title: Title of the table in the paper.
        path: Where the page goes.
        command: Command line that was typed.
    """
    path.write_text(reproduction_page(record, summary, title, command))
    return path


def reproduction_page(record: Reproduction, summary: Summary, title: str, command: str) -> str:
    """The page: one table for each column of the paper's, and one of averages and ranks."""
    scale = record.settings["scale"]
    places = dict.fromkeys(number.place for number in record.numbers)
    tables = {
        place: table(
            "Success in percent, or mean squared error x 1000, with 95 % intervals where episodes "
            "were counted.",
            (
                *("row", "tokens", "ours", "in the paper", "the paper's number", "steps"),
                *("temperature", "seed", "episodes a task"),
            ),
            [_cells(number) for number in record.numbers if number.place == place],
        )
        for place in places
    }
    if summary[0]:
        tables["Averages and mean ranks"] = _averages(*summary)
    return page(
        title,
        f"Made again at the scale <b>{escape(scale)}</b>.",
        summary=bullets(sentences(record)),
        figures={},
        tables=tables,
        made=how_made([command], record.settings, record.versions),
    )


def sentences(record: Reproduction) -> list[str]:
    """What the record says about the paper's numbers."""
    said = [number.verdict for number in record.numbers if number.verdict]
    if not said:
        return [
            "The paper's numbers were measured on other data or at another scale: no row of this "
            "page can agree with them or not."
        ]
    return [
        f"{said.count('agrees')} of {len(said)} numbers of the paper lie within our 95 % intervals."
    ]


def value_words(number: ReproducedNumber) -> str:
    """Our number with its interval."""
    if number.low is None or number.high is None:
        return f"{number.value:.3g}"
    return f"{number.value:.1f} ({number.low:.0f} - {number.high:.0f})"


def _averages(ours: Sequence[BenchmarkRow], papers: Sequence[BenchmarkRow]) -> str:
    printed = {row.name: row for row in papers}
    cells = []
    for row in ours:
        both = (row, printed.get(row.name))
        averages = [
            "" if r is None or r.average is None else f"{100 * r.average:.1f}" for r in both
        ]
        ranks = ["" if r is None or r.rank is None else f"{r.rank:.1f}" for r in both]
        cells.append([row.name, *averages, *ranks])
    return table(
        "Every column counts the same; ranks are among the rows of this page, ties share theirs.",
        ("row", "average", "in the paper", "mean rank", "in the paper"),
        cells,
    )


def _cells(number: ReproducedNumber) -> list[str]:
    temperature = number.temperature
    return [
        *(number.row, budget_name(number.budget), value_words(number)),
        "" if number.paper is None else f"{number.paper:g}",
        *(number.verdict, str(number.steps)),
        "" if temperature is None else f"{temperature:g}",
        *(str(number.seed), "" if number.episodes is None else str(number.episodes)),
    ]
