"""The tables of numbers in the report of an evaluation."""

from __future__ import annotations

from html import escape

from oatkit.measure.reports.evaluation_findings import format_interval, format_points
from oatkit.measure.reports.html_page import table
from oatkit.measure.reports.report_words import (
    acts_by_flow,
    has_budgets,
    maybe,
    result_name,
    tasks_of,
)
from oatkit.types import BudgetResult, PolicyEvaluation, TaskResult


def evaluation_tables(record: PolicyEvaluation) -> dict[str, str]:
    """Heading to HTML; a table without rows is empty."""
    return {
        "Success": _success_table(record),
        "Time and calls": _time_table(record),
        "Pair by pair": _paired_table(record),
    }


def _success_table(record: PolicyEvaluation) -> str:
    tasks = tasks_of(record.budgets)
    rows = [["<b>all</b>", *(_cell(b) for b in record.budgets)]]
    if len(tasks) > 1:
        rows += [[escape(task), *_cells_of_task(record, task)] for task in tasks]
    if any(b.score is not None for b in record.budgets):
        rows.append(["score", *(f"{b.score or 0:.3f}" for b in record.budgets)])
    headings = ("task", *(result_name(record, b.budget) for b in record.budgets))
    note = "Solved, with the interval."
    if has_budgets(record):
        unit = "Euler steps" if acts_by_flow(record) else "tokens"
        note = f"Solved at each budget, with the interval; a budget is a number of {unit}."
    return table(note, headings, rows, is_html=True)


def _cells_of_task(record: PolicyEvaluation, task: str) -> list[str]:
    found = [{t.task: t for t in b.tasks}.get(task) for b in record.budgets]
    return ["" if t is None else _cell(t) for t in found]


def _cell(found: BudgetResult | TaskResult) -> str:
    s = found.success
    return f"{s.successes} of {s.episodes}<small>{s.low:.0%} to {s.high:.0%}</small>"


def _time_table(record: PolicyEvaluation) -> str:
    rows = [
        [
            result_name(record, b.budget),
            f"{b.tokens:.3g}",
            f"{b.calls:.3g}",
            maybe(b.latency_ms, ".3g"),
            maybe(b.steps_per_query, ".3g"),
            maybe(b.calls_per_s, ".3g"),
            maybe(b.seam_jump, ".2g"),
            maybe(b.inner_jump, ".2g"),
            f"{b.steps:.0f}",
            f"{_share_clipped(record, b):.0%}",
        ]
        for b in record.budgets
    ]
    note = (
        "Means. Clipped: actions outside the simulator's bounds, moved to them; decoders overshoot "
        "where demonstrations touch a bound. Jumps: root mean square difference of successive "
        "actions where a chunk begins and elsewhere, normalized units."
    )
    name = "budget" if has_budgets(record) else "head"
    headings = [name, "tokens", "calls", "ms a query", "steps a query", "calls a second"]
    headings += ["jump at seams", "jump elsewhere", "steps an episode", "actions clipped"]
    return table(note, headings, rows)


def _share_clipped(record: PolicyEvaluation, b: BudgetResult) -> float:
    """Share of the executed actions that were clipped."""
    own = [e for e in record.episodes if e.budget == b.budget]
    return sum(e.clipped * e.steps for e in own) / max(1, sum(e.steps for e in own))


def _paired_table(record: PolicyEvaluation) -> str:
    if not record.comparisons:
        return ""
    rows = [
        [
            f"{c.second} against {c.first}",
            str(c.episodes),
            str(c.only_second),
            str(c.only_first),
            format_points(c.difference),
            format_interval(c),
            f"{c.p_value:.2g}",
        ]
        for c in record.comparisons
    ]
    headings = (
        *("which", "episodes", "only the former solved", "only the latter solved"),
        *("difference, points", "95 % interval", "p"),
    )
    what = "at two budgets, or by two policies" if has_budgets(record) else "by two policies"
    note = (
        f"The same episodes {what}. An interval that holds 0 does not tell them apart (Newcombe's "
        "interval; exact McNemar test)."
    )
    return table(note, headings, rows)
