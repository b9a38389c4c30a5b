"""Charts of a policy's evaluation; the color is that of the tokenizer's kind."""

from __future__ import annotations

import math
from typing import Any

from oatkit.measure.reports.charts import GRID, STYLES, Chart, new_figure, styled
from oatkit.measure.reports.evaluation_words import acts_by_flow, result_name
from oatkit.types import BudgetResult, PolicyEvaluation, SuccessRate

MAX_TASKS = 7
"""With more tasks than this only all of them together are drawn."""
COLUMNS = 4


def _axis(record: PolicyEvaluation) -> str:
    return "" if acts_by_flow(record) else "budget, tokens"


@styled
def success(record: PolicyEvaluation) -> Chart:
    """Success at each budget with its interval: all episodes, then every task."""
    together: list[SuccessRate | None] = [b.success for b in record.budgets]
    panels = {"all tasks": together}
    tasks = dict.fromkeys(t.task for b in record.budgets for t in b.tasks)
    if len(tasks) == 1:
        panels = {next(iter(tasks)): together}
    elif len(tasks) <= MAX_TASKS:
        panels |= {task: _of_task(record, task) for task in tasks}
    rows = math.ceil(len(panels) / COLUMNS)
    columns = math.ceil(len(panels) / rows)
    figure, grid = new_figure(9.5, 0.4 + 2.5 * rows, rows, columns, sharey=True)
    places = list(grid.flat)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, rates) in zip(places, panels.items(), strict=False):
        _rates(axes, record, rates)
        axes.set_title(title)
    for row in grid:
        row[0].set_ylabel("success, %")
    return Chart(figure, "success")


def _of_task(record: PolicyEvaluation, task: str) -> list[SuccessRate | None]:
    return [next((t.success for t in b.tasks if t.task == task), None) for b in record.budgets]


def _rates(axes: Any, record: PolicyEvaluation, rates: list[SuccessRate | None]) -> None:
    color, marker = STYLES[record.kind]
    for place, found in enumerate(rates):
        if found is None:
            continue
        y = 100 * found.rate
        axes.plot([place, place], [100 * found.low, 100 * found.high], color=color, alpha=0.45)
        axes.plot([place], [y], marker=marker, markersize=7, color=color)
        top = (place, 100 * found.high)
        axes.annotate(f"{y:.0f}", top, (0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(rates)), [result_name(record, b.budget) for b in record.budgets])
    axes.set(ylim=(-4, 117), xlim=(-0.6, len(rates) - 0.4), xlabel=_axis(record))
    axes.grid(visible=False, axis="x")


@styled
def cost(record: PolicyEvaluation) -> Chart:
    """What a query takes at each budget, and what success it buys."""
    figure, ((times, bought),) = new_figure(9.5, 3.2, columns=2)
    color, marker = STYLES[record.kind]
    timed = [b for b in record.budgets if b.latency_ms is not None]
    for place, b in enumerate(timed):
        assert b.latency_ms is not None
        times.bar(place, b.latency_ms, 0.6, color=color)
        text = f"{b.latency_ms:.3g} ms\n{_calls(b)}"
        times.annotate(
            *(text, (place, b.latency_ms), (0, 3)), textcoords="offset points", ha="center"
        )
    times.set_xticks(range(len(timed)), [result_name(record, b.budget) for b in timed])
    times.set(xlabel=_axis(record), ylabel="time of a query, ms")
    times.margins(y=0.28)
    times.grid(visible=False, axis="x")
    for b in record.budgets:
        s = b.success
        bought.plot([b.calls] * 2, [100 * s.low, 100 * s.high], color=color, alpha=0.45)
        is_auto = b.budget is None
        bought.plot(
            *([b.calls], [100 * s.rate]),
            marker=marker,
            markersize=7,
            color=color,
            markerfacecolor=GRID if is_auto else color,
        )
        where = (-6, -12) if is_auto else (6, 4)  # it may lie beside a fixed budget
        bought.annotate(
            *(result_name(record, b.budget), (b.calls, 100 * s.rate), where),
            textcoords="offset points",
            ha="right" if is_auto else "left",
        )
    bought.set(xlabel="network calls a query, mean", ylabel="success, %", ylim=(-4, 113))
    bought.margins(x=0.12)
    return Chart(figure, "cost")


def _calls(b: BudgetResult) -> str:
    return f"{b.calls:.3g} call{'s' * (b.calls != 1)}"
