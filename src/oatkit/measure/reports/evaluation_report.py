"""`report.html` of `oatkit policy eval`, from its record and the videos it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from oatkit.measure.reports.chart import Chart
from oatkit.measure.reports.evaluation_findings import cautions, sentences
from oatkit.measure.reports.evaluation_tables import evaluation_tables
from oatkit.measure.reports.html_page import bullets, figures, how_made, page, video, warning
from oatkit.measure.reports.report_words import actor, execution_words, has_budgets
from oatkit.measure.reports.success_chart import plot_success
from oatkit.measure.reports.time_chart import plot_success_by_time
from oatkit.types import (
    EpisodeResult,
    EpisodeVideo,
    PolicyEvaluation,
    budget_name,
    budget_order,
)

EVALUATION_CHARTS: dict[str, Callable[[PolicyEvaluation], Sequence[Chart]]] = {
    "Success against time": plot_success_by_time,
    "Success by task": plot_success,
}
"""Section of the report to what plots its charts; a section without a chart is left out."""
MAX_VIDEOS = 24
"""Maximum number of videos that the page holds; the others stay beside it."""


def write_evaluation_report(record: PolicyEvaluation, folder: Path) -> Path:
    """Write `report.html` into the record's folder."""
    path = folder / "report.html"
    path.write_text(evaluation_page(record, folder))
    return path


def evaluation_page(record: PolicyEvaluation, folder: Path) -> str:
    """The page; the videos are below `folder`."""
    means = f"acting by its {actor(record)}"
    if actor(record) is None:
        means = f"on <b>{escape(record.kind)}</b> tokens"
    lead = (
        f"<code>{escape(record.policy)}</code>, {means}, in {record.settings['env']}: "
        f"{len(record.episodes)} episodes, {execution_words(record)}."
    )
    charts = {title: figures(plot(record)) for title, plot in EVALUATION_CHARTS.items()}
    return page(
        "A policy in the simulator",
        lead,
        summary=bullets(sentences(record)) + warning(cautions(record)),
        figures={**charts, "The robot at work": videos(record, folder)},
        tables=evaluation_tables(record),
        made=how_made(
            [record.command],
            record.settings,
            record.versions,
            {"time": f"{record.seconds:.0f} s"},
        ),
    )


def videos(record: PolicyEvaluation, folder: Path) -> str:
    """Videos by task; those of one goal stand side by side."""
    if not record.videos:
        return ""
    results = {(e.task, e.budget, e.episode): e for e in record.episodes}
    shown = sorted(record.videos, key=lambda v: v.episode)[:MAX_VIDEOS]
    is_named = has_budgets(record)
    parts = ["<p>The same goal at every budget, side by side.</p>"] if is_named else []
    for task in sorted({v.task for v in shown}):
        films = sorted((v for v in shown if v.task == task), key=_order)
        inside = "".join(
            video(folder / v.path, _outcome(results[v.task, v.budget, v.episode], is_named))
            for v in films
        )
        parts.append(f'<h3>{escape(task)}</h3><div class="films">{inside}</div>')
    left = len(record.videos) - len(shown)
    if left:
        parts.append(f'<p class="soft">{left} more are in <code>videos</code>.</p>')
    return "".join(parts)


def _order(v: EpisodeVideo) -> tuple[int, tuple[int, int]]:
    """Episodes in order, and in each the budgets from small to large, `auto` last."""
    return v.episode, budget_order(v.budget)


def _outcome(e: EpisodeResult, is_named: bool) -> str:
    word = (
        '<span class="yes">solved</span>' if e.is_success else '<span class="no">not solved</span>'
    )
    name = f"budget {budget_name(e.budget)}: " if is_named else ""
    return f"{name}{word} in {e.steps} steps"
