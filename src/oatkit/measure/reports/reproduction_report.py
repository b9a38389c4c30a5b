"""The page of `oatkit reproduce`: the paper's numbers beside ours, from the record."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from oatkit.measure.reports.html_page import bullets, how_made, page, table
from oatkit.types import (
    PrintedNumbers,
    ReproducedNumber,
    Reproduction,
    ReproductionSummary,
    SummarizedRow,
    budget_name,
)

OTHERS = (
    "They stand beside ours with the name of the benchmark that each is of. Demonstrations, tasks "
    "and sizes are not the same, and errors are in the units of their own actions."
)
"""What is said of numbers of other benchmarks."""


def write_reproduction_report(
    record: Reproduction,
    summary: ReproductionSummary,
    title: str,
    path: Path,
    command: str,
    *,
    beside: PrintedNumbers | None = None,
    reports: Sequence[Path] = (),
) -> Path:
    """Write the page of a table.

    Args:
        record: What was found.
        summary: What its columns give together.
        title: Title of the table in the paper.
        path: Where the page goes.
        command: Command line that was typed.
        beside: Numbers of the paper's table, shown where they are of another benchmark.
        reports: Reports with more of what was found, below the folder of the page.
    """
    links = [report.relative_to(path.parent).as_posix() for report in reports]
    path.write_text(reproduction_page(record, summary, title, command, beside or {}, links))
    return path


def reproduction_page(
    record: Reproduction,
    summary: ReproductionSummary,
    title: str,
    command: str,
    beside: PrintedNumbers,
    links: Sequence[str],
) -> str:
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
            [_cells(number, beside) for number in record.numbers if number.place == place],
        )
        for place in places
    }
    if summary.rows:
        tables["Averages and mean ranks"] = _averages(summary)
    return page(
        title,
        f"Made again at the scale <b>{escape(scale)}</b>.",
        summary=bullets(sentences(record, beside)),
        figures={"More than numbers": _linked(links)},
        tables=tables,
        made=how_made([command], record.settings, record.versions),
    )


def sentences(record: Reproduction, beside: PrintedNumbers) -> list[str]:
    """What the record says about the paper's numbers."""
    said = [number.verdict for number in record.numbers if number.verdict]
    if not said:
        has_others = any(number.paper_words(beside) for number in record.numbers)
        return [
            "The paper's numbers were measured on other data or at another scale: no row of this "
            "page can agree with them or not.",
            *([OTHERS] if has_others else []),
        ]
    return [
        f"{said.count('agrees')} of {len(said)} numbers of the paper lie within our 95 % intervals."
    ]


def value_words(number: ReproducedNumber) -> str:
    """Our number with its interval."""
    if number.low is None or number.high is None:
        return f"{number.value:.3g}"
    return f"{number.value:.1f} ({number.low:.0f} - {number.high:.0f})"


def _averages(summary: ReproductionSummary) -> str:
    """The table of averages and ranks; what ranks are over is said above it."""
    same = "the paper's numbers, same columns"
    headings = ("row", "temperature", "average", same, "mean rank", f"{same} and rows")
    printed = ("printed in the paper",) if summary.printed_columns else ()
    return table(
        " ".join(rank_sentences(summary)),
        (*headings, *printed, "rows ranked"),
        [_average_cells(row, has_printed=bool(printed)) for row in summary.rows],
    )


def rank_sentences(summary: ReproductionSummary) -> list[str]:
    """What averages and ranks are over."""
    said = [
        f"Averages and ranks are over {', '.join(summary.columns)}, each counted the same.",
        "Ranks are among the rows of the paper's table that have all of these columns, apart for "
        "each backbone and temperature; ties share theirs, and other rows have none.",
    ]
    other = [name for name in summary.printed_columns if name not in summary.columns]
    if other:
        said.append(f"The ranks that the paper prints are also over {', '.join(other)}.")
    return said


def _average_cells(row: SummarizedRow, has_printed: bool) -> list[str]:
    values = [row.average, row.paper_average, row.rank, row.paper_rank]
    values += [row.printed_rank] if has_printed else []
    of_paper = f" of {row.num_rows}" if row.num_rows else ""
    return [
        *(row.name, "" if row.temperature is None else f"{row.temperature:g}"),
        *("" if value is None else f"{value:.1f}" for value in values),
        f"{row.num_ranked}{of_paper}" if row.num_ranked else "",
    ]


def _linked(links: Sequence[str]) -> str:
    """Links to reports of comparisons."""
    if not links:
        return ""
    items = "".join(f'<li><a href="{escape(link)}">{escape(link)}</a></li>' for link in links)
    return (
        "<p>Chunks decoded from growing prefixes, and the properties of each kind with their "
        f"measurements:</p><ul>{items}</ul>"
    )


def _cells(number: ReproducedNumber, beside: PrintedNumbers) -> list[str]:
    temperature = number.temperature
    return [
        *(number.row, budget_name(number.budget), value_words(number)),
        number.paper_words(beside),
        *(number.verdict, str(number.steps)),
        "" if temperature is None else f"{temperature:g}",
        *(str(number.seed), "" if number.episodes is None else str(number.episodes)),
    ]
