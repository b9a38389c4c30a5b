"""The chart of what a query of the policy costs, and of the success that this buys."""

from __future__ import annotations

from typing import Any

from oatkit.measure.reports.chart import GRID, STYLES, Chart, new_figure, styled
from oatkit.measure.reports.report_words import (
    acts_by_flow,
    axis_name,
    count_tokens,
    fixed_budgets,
    result_name,
)
from oatkit.types import PolicyEvaluation

CAPTION = (
    "Left: median time from one observation to its chunk, simulators at rest, and the network "
    "calls it takes. Right: what those calls buy; further up and left is better"
)


@styled
def plot_query_time(record: PolicyEvaluation) -> list[Chart]:
    """Time of a query at each budget, and success against network calls."""
    figure, ((times, bought),) = new_figure(9.5, 3.2, columns=2)
    _plot_times(times, record)
    _plot_success_by_calls(bought, record)
    caption = f"{CAPTION}." if acts_by_flow(record) else f"{CAPTION}, the pale mark is auto."
    return [Chart(figure, "cost", see=_see(record), caption=caption)]


def _plot_times(axes: Any, record: PolicyEvaluation) -> None:
    timed = [b for b in record.budgets if b.latency_ms is not None]
    for place, b in enumerate(timed):
        assert b.latency_ms is not None
        axes.bar(place, b.latency_ms, 0.6, color=STYLES[record.kind][0])
        text = f"{b.latency_ms:.3g} ms\n{b.calls:.3g} call{'s' * (b.calls != 1)}"
        top = (place, b.latency_ms)
        axes.annotate(text, top, (0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(timed)), [result_name(record, b.budget) for b in timed])
    axes.set(xlabel=axis_name(record), ylabel="time of a query, ms")
    axes.margins(y=0.28)
    axes.grid(visible=False, axis="x")


def _plot_success_by_calls(axes: Any, record: PolicyEvaluation) -> None:
    color, marker = STYLES[record.kind]
    for b in record.budgets:
        s, is_pale = b.success, b.budget == "auto"
        axes.plot([b.calls] * 2, [100 * s.low, 100 * s.high], color=color, alpha=0.45)
        axes.plot(
            *([b.calls], [100 * s.rate]),
            marker=marker,
            markersize=7,
            color=color,
            markerfacecolor=GRID if is_pale else color,
        )
        where = (-6, -12) if is_pale else (6, 4)  # it may lie beside a fixed budget
        axes.annotate(
            *(result_name(record, b.budget), (b.calls, 100 * s.rate), where),
            textcoords="offset points",
            ha="right" if is_pale else "left",
        )
    axes.set(xlabel="network calls a query, mean", ylabel="success, %", ylim=(-4, 113))
    axes.margins(x=0.12)


def _see(record: PolicyEvaluation) -> str:
    timed = [(b, b.latency_ms) for b in fixed_budgets(record) if b.latency_ms is not None]
    if len(timed) < 2:
        return "What a query costs, and what it buys."
    (first, first_ms), (last, last_ms) = timed[0], timed[-1]
    return (
        f"{count_tokens(last.tokens)} take {last_ms / first_ms:.2g} times as long as "
        f"{count_tokens(first.tokens)}, in {last.calls:.3g} calls."
    )
