"""What the evaluation of a policy says, in words."""

from __future__ import annotations

from collections.abc import Sequence

from oatkit.measure.reports.report_words import (
    acts_by_flow,
    count_tokens,
    fixed_budgets,
    has_budgets,
    means_of_acting,
)
from oatkit.types import (
    BudgetResult,
    PairedComparison,
    PolicyEvaluation,
    SuccessRate,
    TaskResult,
    budget_name,
)

PAPER_EPISODES = 50
"""Number of episodes of a task in the paper."""
SIGNIFICANT = 0.05
"""The p-value below which two budgets are said to differ."""


def sentences(record: PolicyEvaluation) -> list[str]:
    """What was found, one sentence each."""
    fixed = fixed_budgets(record)
    said = []
    if len(fixed) > 1:
        said.append(_first_and_all(record, fixed))
    if fixed:
        end = fixed[-1]
        means = means_of_acting(record, end)
        said.append(f"With {means} the policy solves {_rate(end.success)}.")
        if len(end.tasks) > 1:
            by_task = ", ".join(f"{t.task} {t.success.rate:.0%}" for t in _best_first(end))
            said.append(f"By task, with {means}: {by_task}.")
        if end.score is not None:
            said.append(f"Its best score of an episode is {end.score:.3f} on average.")
        if len(fixed) > 1:
            rates = ", ".join(f"{b.success.rate:.0%} with {b.budget}" for b in fixed)
            said.append(f"By budget: {rates}.")
    said += [_auto(b) for b in record.budgets if b.budget == "auto"]
    if len(fixed) == 1 and fixed[0].latency_ms is not None:
        time = f"{fixed[0].latency_ms:.3g} ms with {means_of_acting(record, fixed[0])}"
        said.append(f"From observation to chunk, one observation at a time: {time}.")
    return said + _others(record)


def cautions(record: PolicyEvaluation) -> list[str]:
    """What to know before believing the numbers."""
    said = []
    fewest = min(t.success.episodes for b in record.budgets for t in b.tasks)
    if fewest < PAPER_EPISODES:
        each = "task and budget" if has_budgets(record) else "task"
        said.append(
            f"{fewest} episode{'s' * (fewest > 1)} of a {each}, where the paper has "
            f"{PAPER_EPISODES}: intervals are wide."
        )
    if all(b.success.successes == 0 for b in record.budgets):
        said.append("No episode was solved: more training or demonstrations come first.")
    errors = sum(e.error is not None for e in record.episodes)
    if errors:
        said.append(f"{errors} episodes ended because the policy's tokens did not decode.")
    redrawn = sum(e.redrawn or 0 for e in record.episodes)
    if redrawn:
        queries = sum(e.queries for e in record.episodes)
        said.append(
            f"{redrawn} of {queries} queries gave tokens that did not decode and generated again."
        )
    if record.worker_deaths:
        repeats = sum(e.repeats > 0 for e in record.episodes)
        said.append(
            f"{record.worker_deaths} simulator processes died; {repeats} episodes were repeated."
        )
    return said


def format_points(difference: float) -> str:
    """A difference of success rates in percentage points."""
    return f"{100 * difference:+.0f}"


def format_interval(pair: PairedComparison) -> str:
    """The 95 % interval of a difference, in percentage points."""
    return f"{format_points(pair.low)} to {format_points(pair.high)}"


def _ends(budgets: Sequence[BudgetResult]) -> list[BudgetResult]:
    return [budgets[0]] if len(budgets) == 1 else [budgets[0], budgets[-1]]


def _best_first(b: BudgetResult) -> list[TaskResult]:
    return sorted(b.tasks, key=lambda t: -t.success.rate)


def _rate(s: SuccessRate) -> str:
    return (
        f"{s.successes} of {s.episodes} episodes: {s.rate:.0%}, 95 % interval {s.low:.0%} to "
        f"{s.high:.0%}"
    )


def _first_and_all(record: PolicyEvaluation, fixed: Sequence[BudgetResult]) -> str:
    """What the smallest and the largest budget solve in which time, and whether more helps."""
    first, last = _ends(fixed)
    told = " and ".join(
        f"{b.success.rate:.0%}{_time_of(b)} with {means_of_acting(record, b)}"
        for b in (first, last)
    )
    return f"The policy solves {told}{_trend(record, first, last)}."


def _time_of(b: BudgetResult) -> str:
    return "" if b.latency_ms is None else f" in {b.latency_ms:.3g} ms a query"


def _trend(record: PolicyEvaluation, first: BudgetResult, last: BudgetResult) -> str:
    """Whether the episodes distinguish the largest budget from the smallest."""
    names = tuple(budget_name(b.budget) for b in (first, last))
    pair = next((c for c in record.comparisons if (c.first, c.second) == names), None)
    if pair is None:
        return ""
    numbers = f"{format_points(pair.difference)} points ({format_interval(pair)})"
    unit = "Euler steps" if acts_by_flow(record) else "tokens"
    if first.success.successes == last.success.successes == 0:
        return f": it solves nothing with either, so nothing is learned about more {unit}"
    if pair.p_value < SIGNIFICANT and not pair.low <= 0 <= pair.high:
        return f": more {unit} {'help' if pair.low > 0 else 'hurt here'}, by {numbers}"
    return f": whether more {unit} help is more than these episodes tell, {numbers}"


def _others(record: PolicyEvaluation) -> list[str]:
    """What each policy that it is compared with solves, and the difference on the same episodes."""
    pairs = record.comparisons[len(record.comparisons) - len(record.others) :]
    return [
        f"{pair.first} solves {_largest(other).success.rate:.0%}; on the same episodes "
        f"{pair.second} is {format_points(pair.difference)} points from it "
        f"({format_interval(pair)})."
        for other, pair in zip(record.others, pairs, strict=True)
    ]


def _largest(record: PolicyEvaluation) -> BudgetResult:
    return (fixed_budgets(record) or list(record.budgets))[-1]


def _auto(b: BudgetResult) -> str:
    return (
        f"auto takes {count_tokens(b.tokens)} in {b.calls:.2g} calls on average and solves "
        f"{_rate(b.success)}."
    )
