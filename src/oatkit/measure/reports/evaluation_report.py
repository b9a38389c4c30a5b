"""`report.html` of `oatkit policy eval`, from its record and the videos it names."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from oatkit.measure.reports import evaluation_charts as charts
from oatkit.measure.reports.evaluation_words import acts_by_flow, budget_name, result_name
from oatkit.measure.reports.html_page import bullets, figure, how_made, page, table, video, warning
from oatkit.measure.reports.verdict import count_tokens
from oatkit.types import (
    BudgetResult,
    EpisodeResult,
    EpisodeVideo,
    PairedComparison,
    PolicyEvaluation,
    SuccessRate,
    TaskResult,
)

PAPER_EPISODES = 50
SIGNIFICANT = 0.05
MAX_VIDEOS = 24
"""So many are stored in the page; the others stay beside it."""


def write_evaluation_report(record: PolicyEvaluation, folder: Path) -> Path:
    """Write `report.html` into the record's folder."""
    path = folder / "report.html"
    path.write_text(render(record, folder))
    return path


def render(record: PolicyEvaluation, folder: Path) -> str:
    """The page; `folder` is where the videos are below."""
    s = record.settings
    lead = (
        f"<code>{escape(record.policy)}</code>, {_means(record)}, in {s['env']}: "
        f"{len(record.episodes)} episodes, {s['execute']} of {s['horizon']} steps of a chunk "
        "executed before the next query."
    )
    return page(
        "A policy in the simulator",
        lead,
        summary=bullets(sentences(record)) + warning(cautions(record)),
        figures={
            "Success by budget": success(record),
            "Time by budget": cost(record),
            "The robot at work": videos(record, folder),
        },
        tables=tables(record),
        made=how_made(
            [record.command],
            record.settings,
            record.versions,
            {"time": f"{record.seconds:.0f} s"},
        ),
    )


# In words


def sentences(record: PolicyEvaluation) -> list[str]:
    """What was found, one sentence each."""
    fixed = [b for b in record.budgets if b.budget is not None]
    said = []
    if fixed:
        end = fixed[-1]
        tokens = _spent(record, end)
        said.append(f"With {tokens} the policy solves {_rate(end.success)}.")
        if len(end.tasks) > 1:
            by_task = ", ".join(f"{t.task} {t.success.rate:.0%}" for t in _best_first(end))
            said.append(f"By task, with {tokens}: {by_task}.")
        if end.score is not None:
            said.append(f"Its best score of an episode is {end.score:.3f} on average.")
        if len(fixed) > 1:
            rates = ", ".join(f"{b.success.rate:.0%} with {b.budget}" for b in fixed)
            said.append(f"By budget: {rates}. {_trend(record, fixed)}")
    said += [_auto(b) for b in record.budgets if b.budget is None]
    timed = [b for b in fixed if b.latency_ms is not None]
    if timed:
        times = ", ".join(f"{b.latency_ms:.3g} ms with {_spent(record, b)}" for b in _ends(timed))
        said.append(f"From observation to chunk, one observation at a time: {times}.")
    return said


def _means(record: PolicyEvaluation) -> str:
    """What the policy acts by."""
    return (
        "acting by its flow expert" if acts_by_flow(record) else f"on <b>{record.kind}</b> tokens"
    )


def _spent(record: PolicyEvaluation, b: BudgetResult) -> str:
    return "its flow expert" if acts_by_flow(record) else count_tokens(b.tokens)


def _ends(budgets: Sequence[BudgetResult]) -> list[BudgetResult]:
    return [budgets[0]] if len(budgets) == 1 else [budgets[0], budgets[-1]]


def _best_first(b: BudgetResult) -> list[TaskResult]:
    return sorted(b.tasks, key=lambda t: -t.success.rate)


def _rate(s: SuccessRate) -> str:
    return (
        f"{s.successes} of {s.episodes} episodes: {s.rate:.0%}, 95 % interval {s.low:.0%} to "
        f"{s.high:.0%}"
    )


def _trend(record: PolicyEvaluation, fixed: Sequence[BudgetResult]) -> str:
    """Whether the largest budget is told apart from the smallest."""
    first, last = (budget_name(b.budget) for b in _ends(fixed))
    pair = next((c for c in record.comparisons if (c.first, c.second) == (first, last)), None)
    if pair is None:
        return ""
    told = f"{last} against {first} is {_points(pair.difference)} points ({_between(pair)})"
    is_told_apart = pair.p_value < SIGNIFICANT and not pair.low <= 0 <= pair.high
    if is_told_apart:
        return f"More tokens {'help' if pair.low > 0 else 'hurt here'}: {told}."
    return f"These episodes do not tell the largest budget from the smallest: {told}."


def _auto(b: BudgetResult) -> str:
    return (
        f"auto takes {count_tokens(b.tokens)} in {b.calls:.2g} calls on average and solves "
        f"{_rate(b.success)}."
    )


def cautions(record: PolicyEvaluation) -> list[str]:
    """What to know before believing the numbers."""
    said = []
    fewest = min(t.success.episodes for b in record.budgets for t in b.tasks)
    if fewest < PAPER_EPISODES:
        said.append(
            f"{fewest} episode{'s' * (fewest > 1)} of a task and budget, where the paper has "
            f"{PAPER_EPISODES}: intervals are wide."
        )
    if all(b.success.successes == 0 for b in record.budgets):
        said.append("No episode was solved: more training or demonstrations come first.")
    errors = sum(e.error is not None for e in record.episodes)
    if errors:
        said.append(f"{errors} episodes ended for want of a chunk that decodes.")
    if record.worker_deaths:
        repeats = sum(e.repeats > 0 for e in record.episodes)
        said.append(
            f"{record.worker_deaths} simulator processes died; {repeats} episodes were repeated."
        )
    return said


# Figures, tables, videos


def success(record: PolicyEvaluation) -> str:
    """Success by budget and task, drawn."""
    fixed = [b for b in record.budgets if b.budget is not None] or list(record.budgets)
    best = max(fixed, key=lambda b: b.success.rate)
    see = f"Most is solved with {_spent(record, best)}: {best.success.rate:.0%}"
    if fixed[0] is not best:
        see += f", against {fixed[0].success.rate:.0%} with {count_tokens(fixed[0].tokens)}"
    if not best.success.successes:
        see = "No episode is solved" if acts_by_flow(record) else "No budget solves an episode"
    caption = (
        "Lines are Wilson's 95 % intervals: budgets whose lines overlap widely may be equally "
        "good. The episodes are the same at every budget: same goals, same draws."
    )
    return figure(charts.success(record), f"{see}.", caption)


def tables(record: PolicyEvaluation) -> dict[str, str]:
    """All numbers, by what they are about."""
    return {
        "Success": _success_table(record),
        "Time and calls": _cost_table(record),
        "Pair by pair": _paired_table(record),
    }


def _success_table(record: PolicyEvaluation) -> str:
    tasks = dict.fromkeys(t.task for b in record.budgets for t in b.tasks)
    rows = [["<b>all</b>", *(_cell(b) for b in record.budgets)]]
    if len(tasks) > 1:
        rows += [[escape(task), *_of_task(record, task)] for task in tasks]
    if any(b.score is not None for b in record.budgets):
        rows.append(["score", *(f"{b.score or 0:.3f}" for b in record.budgets)])
    headings = ("task", *(result_name(record, b.budget) for b in record.budgets))
    note = "Solved at each budget, with the interval; a budget is a number of tokens."
    if acts_by_flow(record):
        note = "Solved, with the interval."
    return table(note, headings, rows, is_html=True)


def _of_task(record: PolicyEvaluation, task: str) -> list[str]:
    found = [{t.task: t for t in b.tasks}.get(task) for b in record.budgets]
    return ["" if t is None else _cell(t) for t in found]


def _cell(found: BudgetResult | TaskResult) -> str:
    s = found.success
    return f"{s.successes} of {s.episodes}<small>{s.low:.0%} to {s.high:.0%}</small>"


def cost(record: PolicyEvaluation) -> str:
    """Latency and calls by budget, drawn."""
    timed = [b for b in record.budgets if b.budget is not None and b.latency_ms is not None]
    see = "What a query costs, and what it buys."
    if len(timed) > 1:
        first, last = timed[0], timed[-1]
        assert first.latency_ms is not None
        assert last.latency_ms is not None
        see = (
            f"{count_tokens(last.tokens)} take {last.latency_ms / first.latency_ms:.2g} times as "
            f"long as {count_tokens(first.tokens)}, in {last.calls:.3g} calls."
        )
    caption = (
        "Left: median time from one observation to its chunk, simulators at rest, and the network "
        "calls it takes. Right: what those calls buy; further up and left is better, the pale mark "
        "is auto."
    )
    return figure(charts.cost(record), see, caption)


def _cost_table(record: PolicyEvaluation) -> str:
    rows = [
        [
            result_name(record, b.budget),
            f"{b.tokens:.3g}",
            f"{b.calls:.3g}",
            "-" if b.latency_ms is None else f"{b.latency_ms:.3g}",
            f"{b.steps:.0f}",
            f"{_clipped(record, b.budget):.0%}",
        ]
        for b in record.budgets
    ]
    note = (
        "Means. Cut: actions outside the simulator's bounds, moved to them; decoders overshoot "
        "where demonstrations touch a bound."
    )
    headings = ("budget", "tokens", "calls", "ms a query", "steps an episode", "actions cut")
    return table(note, headings, rows)


def _clipped(record: PolicyEvaluation, budget: int | None) -> float:
    """Share of the executed actions."""
    own = [e for e in record.episodes if e.budget == budget]
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
            _points(c.difference),
            _between(c),
            f"{c.p_value:.2g}",
        ]
        for c in record.comparisons
    ]
    headings = (
        *("which", "episodes", "only the former solved", "only the latter solved"),
        *("difference, points", "95 % interval", "p"),
    )
    note = (
        "The same episodes at two budgets, or by two policies. An interval that holds 0 does not "
        "tell them apart (Newcombe's interval; exact McNemar test)."
    )
    return table(note, headings, rows)


def _points(difference: float) -> str:
    return f"{100 * difference:+.0f}"


def _between(c: PairedComparison) -> str:
    return f"{_points(c.low)} to {_points(c.high)}"


def videos(record: PolicyEvaluation, folder: Path) -> str:
    """Films by task, budgets side by side on the same goal."""
    if not record.videos:
        return ""
    results = {(e.task, e.budget, e.episode): e for e in record.episodes}
    shown = sorted(record.videos, key=lambda v: v.episode)[:MAX_VIDEOS]
    parts = ["<p>The same goal at every budget, side by side.</p>"]
    for task in sorted({v.task for v in shown}):
        films = sorted((v for v in shown if v.task == task), key=_place)
        inside = "".join(
            video(folder / v.path, _outcome(results[v.task, v.budget, v.episode])) for v in films
        )
        parts.append(f'<h3>{escape(task)}</h3><div class="films">{inside}</div>')
    left = len(record.videos) - len(shown)
    if left:
        parts.append(f'<p class="soft">{left} more are in <code>videos</code>.</p>')
    return "".join(parts)


def _place(v: EpisodeVideo) -> tuple[int, bool, int]:
    return v.episode, v.budget is None, v.budget or 0


def _outcome(e: EpisodeResult) -> str:
    word = (
        '<span class="yes">solved</span>' if e.is_success else '<span class="no">not solved</span>'
    )
    return f"budget {budget_name(e.budget)}: {word} in {e.steps} steps"
