"""The chart of success against the time of a query, with all policies that were compared."""

from __future__ import annotations

from itertools import chain, cycle
from typing import Any

from oatkit.measure.reports.chart import (
    GRID,
    Chart,
    kind_legend,
    log2_axis,
    new_figure,
    policy_style,
    styled,
)
from oatkit.measure.reports.report_words import (
    fixed_budgets,
    has_budgets,
    means_of_acting,
    policy_names,
    result_name,
    tasks_of,
)
from oatkit.types import BudgetResult, PolicyEvaluation

LINES = ("-", "--", ":", "-.")
FURTHER_MARKERS = "Dv^P*"
"""Lines of the policies and marks of the others, of which several may have the color of one
kind."""
WIDE = 8.0
"""Ratio of the longest time to the shortest from which the axis of times is logarithmic."""
CAPTION = (
    "Time is the median from one observation to its chunk, simulators at rest; further up and left "
    "is better. Upright lines are Wilson's 95 % intervals"
)


@styled
def plot_success_by_time(record: PolicyEvaluation) -> list[Chart]:
    """Success against milliseconds: a curve for each policy; no chart where no time is known."""
    policies = [policy for policy in (record, *record.others) if timed(policy)]
    if not policies:
        return []
    figure, ((axes,),) = new_figure(9.5, 3.6)
    markers = chain([policy_style(policies[0].kind)[1]], cycle(FURTHER_MARKERS))
    looks = zip(cycle(LINES), markers, strict=False)
    for policy, name, look in zip(policies, policy_names(policies), looks, strict=False):
        _plot_policy(axes, policy, name, *look)
    times = [ms for policy in policies for _, ms in timed(policy)]
    if max(times) > WIDE * min(times):
        log2_axis(axes)
    else:
        room = 0.1 * (max(times) - min(times)) or 1.0
        axes.set_xlim(min(times) - room, max(times) + 2 * room)
    axes.set(xlabel="time of a query, ms", ylabel="success, %", ylim=(-4, 109))
    if len(policies) > 1:
        kind_legend(figure, min(2, len(policies)))
    return [Chart(figure, "success-by-time", see=_see(record), caption=_caption(record, policies))]


def timed(record: PolicyEvaluation) -> list[tuple[BudgetResult, float]]:
    """The results whose time of a query is known, and that time in milliseconds."""
    return [(b, b.latency_ms) for b in record.budgets if b.latency_ms is not None]


def _plot_policy(axes: Any, record: PolicyEvaluation, name: str, line: str, marker: str) -> None:
    color = policy_style(record.kind)[0]
    fixed = [(ms, 100 * b.success.rate) for b, ms in timed(record) if b.budget != "auto"]
    if fixed:
        axes.plot(*zip(*fixed, strict=True), line, marker=marker, color=color, label=name)
    for b, ms in timed(record):
        is_auto, y = b.budget == "auto", 100 * b.success.rate
        axes.plot([ms, ms], [100 * b.success.low, 100 * b.success.high], color=color, alpha=0.3)
        if is_auto:
            own_label = {} if fixed else {"label": name}
            axes.plot(ms, y, marker=marker, color=color, markerfacecolor=GRID, **own_label)
        axes.annotate(
            result_name(record, b.budget),
            (ms, y),
            (-5, -12) if is_auto else (5, 4),  # it may lie beside a fixed budget
            textcoords="offset points",
            ha="right" if is_auto else "left",
        )


def _see(record: PolicyEvaluation) -> str:
    fixed = [b for b in fixed_budgets(record) if b.latency_ms is not None]
    if not fixed:
        return "What the time of a query buys."
    told = [
        f"{b.success.rate:.0%} in {b.latency_ms:.3g} ms with {means_of_acting(record, b)}"
        for b in (fixed[:1] if len(fixed) == 1 else (fixed[0], fixed[-1]))
    ]
    return f"{', '.join(told)}."


def _caption(record: PolicyEvaluation, policies: list[PolicyEvaluation]) -> str:
    said = CAPTION
    if any(map(has_budgets, policies)):
        said += ", numbers beside the marks budgets"
    if any(b.budget == "auto" for policy in policies for b, _ in timed(policy)):
        said += "; the pale mark is auto"
    said += "."
    if len(policies) > 1:
        said += " Times are those of the machine on which a record was made."
    if any(set(tasks_of(p.budgets)) != set(tasks_of(record.budgets)) for p in policies):
        said += " Not all records have the same tasks: only the paired comparisons are fair."
    return said
