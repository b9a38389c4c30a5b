"""`report.html` of `oatkit policy eval --benchmark`, from its records."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from oatkit.measure.reports.html_page import bullets, how_made, page, table
from oatkit.measure.reports.report_words import rule_words
from oatkit.types import (
    BenchmarkEvaluation,
    BenchmarkPart,
    BenchmarkRow,
    SuccessRate,
    budget_name,
)


def write_benchmark_report(
    records: Sequence[BenchmarkEvaluation], rows: Sequence[BenchmarkRow], folder: Path
) -> Path:
    """Write `report.html` into a folder.

    Args:
        records: The policy's own evaluations, one for each budget, then others to compare with.
        rows: What the records have found together.
        folder: Where the page goes.
    """
    path = folder / "report.html"
    path.write_text(benchmark_page(records, rows))
    return path


def benchmark_page(records: Sequence[BenchmarkEvaluation], rows: Sequence[BenchmarkRow]) -> str:
    """The page: success of every row on every benchmark, then task by task."""
    first = records[0]
    steps = first.settings["execute"]
    executed = "as many steps as the policy finds worth it" if steps == "auto" else f"{steps} steps"
    lead = (
        f"<code>{escape(first.policy)}</code> on {escape(first.benchmark)} by way of praxis-eval, "
        f"{', '.join([f'{executed} of a chunk executed', *rule_words(first.settings)])}, "
        f"temperature {first.settings['sampling']['temperature']:g}."
    )
    tables = {"Success by benchmark": _overview(rows)}
    for benchmark in dict.fromkeys(record.benchmark for record in records):
        own = [record for record in records if record.benchmark == benchmark and record.parts]
        tables[f"{benchmark}, part by part"] = _parts(own)
        tables[f"{benchmark}, task by task"] = _tasks(own)
    return page(
        "A policy on the paper's benchmarks",
        lead,
        summary=bullets([*map(_sentence, rows), *_said(records)]),
        figures={},
        tables=tables,
        made=how_made([first.command], first.settings, first.versions),
    )


def success_words(success: SuccessRate) -> str:
    """A rate and its interval, in percent."""
    return f"{100 * success.rate:.1f} ({100 * success.low:.0f} - {100 * success.high:.0f})"


def _sentence(row: BenchmarkRow) -> str:
    parts = (f"{success_words(found)} on {name}" for name, found in row.success.items())
    return f"{row.name} solves, in percent with 95 % intervals, {', '.join(parts)}."


def _overview(rows: Sequence[BenchmarkRow]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.success))
    cells = [
        [
            row.name,
            *(success_words(row.success[name]) if name in row.success else "" for name in names),
            "" if row.average is None else f"{100 * row.average:.1f}",
            "" if row.rank is None else f"{row.rank:.1f}",
        ]
        for row in rows
    ]
    note = (
        "Percent with Wilson's 95 % intervals; the average counts every benchmark the same. Ranks "
        "are among the rows that the paper's tables have too; other rows have none."
    )
    return table(note, ("policy", *names, "average", "mean rank"), cells)


def _said(records: Sequence[BenchmarkEvaluation]) -> list[str]:
    return [f"{escape(line)}." for record in records for line in record.decoding_lines()]


def _parts(records: Sequence[BenchmarkEvaluation]) -> str:
    cells = [
        [
            f"{record.policy} at {budget_name(record.settings['budget'])}",
            part.selector,
            str(len(part.tasks)),
            success_words(part.success),
            *("" if count is None else str(count) for count in _counts(part)),
        ]
        for record in records
        for part in record.parts
    ]
    note = (
        "A part is one evaluation by praxis-eval: a task, or a suite of tasks. Queries that were "
        "generated again, and episodes that had no chunk, are of tokens that did not decode."
    )
    heading = ("policy", "part", "tasks", "success", "queries", "generated again", "without chunk")
    return table(note, heading, cells)


def _counts(part: BenchmarkPart) -> tuple[int | None, ...]:
    return part.queries, part.redrawn, part.failed


def _tasks(records: Sequence[BenchmarkEvaluation]) -> str:
    cells = [
        [
            f"{record.policy} at {budget_name(record.settings['budget'])}",
            part.selector,
            task.task,
            success_words(task.success),
        ]
        for record in records
        for part in record.parts
        for task in part.tasks
    ]
    return table("", ("policy", "part", "task", "success"), cells)
