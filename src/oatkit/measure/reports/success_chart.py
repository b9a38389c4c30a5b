"""The chart of success rates at each budget; the color is that of the tokenizer's kind."""

from __future__ import annotations

import math
from typing import Any

from oatkit.measure.reports.chart import Chart, new_figure, policy_style, styled
from oatkit.measure.reports.report_words import (
    actor,
    axis_name,
    count_tokens,
    fixed_budgets,
    means_of_acting,
    result_name,
    tasks_of,
)
from oatkit.types import PolicyEvaluation, SuccessRate

MAX_TASKS = 7
"""Maximum number of tasks with axes of their own; more are only shown together."""
MAX_COLUMNS = 4


@styled
def plot_success(record: PolicyEvaluation) -> list[Chart]:
    """Success at each budget with its interval: all episodes, then every task."""
    panels = _panels(record)
    rows = math.ceil(len(panels) / MAX_COLUMNS)
    columns = math.ceil(len(panels) / rows)
    figure, grid = new_figure(9.5, 0.4 + 2.5 * rows, rows, columns, sharey=True)
    places = list(grid.flat)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, rates) in zip(places, panels.items(), strict=False):
        _plot_rates(axes, record, rates)
        axes.set_title(title)
    for row in grid:
        row[0].set_ylabel("success, %")
    return [Chart(figure, "success", see=_see(record), caption=_caption(record))]


def _panels(record: PolicyEvaluation) -> dict[str, list[SuccessRate | None]]:
    """Title to success at each budget, None where a task was not evaluated."""
    together: list[SuccessRate | None] = [b.success for b in record.budgets]
    tasks = tasks_of(record.budgets)
    if len(tasks) == 1:
        return {tasks[0]: together}
    panels = {"all tasks": together}
    if len(tasks) <= MAX_TASKS:
        for task in tasks:
            by_task = ({t.task: t.success for t in b.tasks} for b in record.budgets)
            panels[task] = [rates.get(task) for rates in by_task]
    return panels


def _plot_rates(axes: Any, record: PolicyEvaluation, rates: list[SuccessRate | None]) -> None:
    color, marker = policy_style(record.kind)
    for place, found in enumerate(rates):
        if found is None:
            continue
        y = 100 * found.rate
        axes.plot([place, place], [100 * found.low, 100 * found.high], color=color, alpha=0.45)
        axes.plot([place], [y], marker=marker, markersize=7, color=color)
        top = (place, 100 * found.high)
        axes.annotate(f"{y:.0f}", top, (0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(rates)), [result_name(record, b.budget) for b in record.budgets])
    axes.set(ylim=(-4, 117), xlim=(-0.6, len(rates) - 0.4), xlabel=axis_name(record))
    axes.grid(visible=False, axis="x")


def _see(record: PolicyEvaluation) -> str:
    fixed = fixed_budgets(record) or list(record.budgets)
    best = max(fixed, key=lambda b: b.success.rate)
    if not best.success.successes:
        return "No episode is solved." if actor(record) else "No budget solves an episode."
    said = f"Most is solved with {means_of_acting(record, best)}: {best.success.rate:.0%}"
    if actor(record):
        said = f"The {actor(record)} solves {best.success.rate:.0%}"
    elif fixed[0] is not best:
        said += f", against {fixed[0].success.rate:.0%} with {count_tokens(fixed[0].tokens)}"
    return f"{said}."


def _caption(record: PolicyEvaluation) -> str:
    if actor(record):
        return "Lines are Wilson's 95 % intervals."
    return (
        "Lines are Wilson's 95 % intervals: budgets whose lines overlap widely may be equally "
        "good. The episodes are the same at every budget: same goals, same random numbers."
    )
