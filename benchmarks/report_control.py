"""The section of the results page on how chunks are executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from benchmarks.closed_loop import pooled
from benchmarks.control import EVERY_BUDGET, ROWS, RULES
from benchmarks.control_drawing import comparable_ms, estimated, left_out
from benchmarks.control_findings import (
    REFERENCE,
    Cells,
    by_seed,
    cells_of,
    paired,
    statement,
    with_all_tokens,
)
from benchmarks.control_findings import RULES as COMPARED
from benchmarks.control_targets import targets
from benchmarks.markdown import paragraph, section, table
from benchmarks.record import FORMER_AUTO, read_results

TIMED = (*ROWS, "act", "diffusion")
"""Policies whose queries are timed."""
ALL_RULES = (*RULES, FORMER_AUTO)
COMMITTED = (
    " Where actions are committed, the policy is told those that are executed before its late "
    "chunk acts, and the chunk begins with them, as near as its tokens come."
)


def control(record: dict[str, Any]) -> str:
    cells = list(record["results"]["cells"].values())
    rules = [rule for rule in ALL_RULES if any(cell["rule"] == rule for cell in cells)]
    found = {cell["row"] for cell in cells}
    names = [name for name in ROWS if name in found]
    return section(
        "How chunks are executed",
        *statement(cells, [*read_results("neighbors").get("rows", {}).values()]),
        *targets(cells, read_results("control_times"), read_results("auto_depth")),
        paragraph(
            "MetaWorld's four tasks from the state, 50 demonstrations each, chunks of 32 actions; "
            "goals that no demonstration has, the same for all. Policies take the likeliest "
            "tokens; a flow head starts from zero noise. Every policy has the small preset; "
            "beside it stand its training steps and those of its tokenizer, how many times as much "
            "the first action of a chunk counted in the latter as the last (`early_weight`), how "
            "wide the policy's targets are around the true codes (`code_smoothing`, in levels), "
            "and whether an offset head corrects decoded chunks by what is seen "
            "(`offset_layers`). "
            + flow_minutes(cells)
            + "MetaWorld's state holds the frame before already. Success is in "
            f"percent over all tasks and seeds, {cells[0]['episodes']} episodes a task, with "
            "Wilson's 95 % interval and, where there are several, the percentages of the seeds.",
            '"half" executes 16 of the 32 actions before the policy looks again, the paper\'s '
            'protocol; a number executes so many; "auto" as many as the policy itself finds worth '
            f'it, two to four; "{FORMER_AUTO}" is what that was before, four to eight.',
            "Blended actions are averaged with those that older chunks planned for the same "
            "moment; late chunks act only some steps after they were asked for; of several draws "
            "the one nearest to the plan under way is taken."
            + COMMITTED
            * any("committed" in rule for rule in rules),
        ),
        table(
            (
                *("policy", "seeds", "steps", "tokenizer", "early", "smoothing"),
                *("offset", "frames", *rules),
            ),
            [
                (
                    f"`{name}`",
                    str(_num_seeds(cells, name)),
                    *_trained(cells, name),
                    *_row(cells, name, rules, success_of_seeds),
                )
                for name in names
            ],
        ),
        *_pairs(cells, names),
        paragraph("By task, with all tokens: box-close, coffee-pull, disassemble, stick-pull."),
        table(
            ("policy", *rules),
            [(f"`{name}`", *_row(cells, name, rules, _by_task)) for name in names],
        ),
        paragraph(
            "The jump between successive actions where a chunk begins, and elsewhere (normalized "
            "units), and the number of steps that are executed after a query. Actions are how far "
            "the hand moves in a step, so a jump of them is an acceleration, and the jerk where a "
            "chunk begins is on average about between the first number less the second and their "
            "sum."
        ),
        table(
            ("policy", *rules),
            [(f"`{name}`", *_row(cells, name, rules, _smoothness)) for name in names],
        ),
        paragraph("Success by budget: tokens, or Euler steps of a flow head."),
        *(_by_budget(cells, rule) for rule in (*EVERY_BUDGET, FORMER_AUTO) if rule in rules),
        script="control",
    )


def flow_minutes(cells: Cells) -> str:
    """A sentence on how long the policy with a flow head and those on tokens were trained."""
    took = [trained_minutes(cells, name) for name in ("light-flow", REFERENCE)]
    if not all(took):
        return ""
    return (
        f"The policy of `light-flow` was trained for {took[0]} minutes, those of `{REFERENCE}` for "
        f"{took[1]}, beside other work and on machines of different speed. "
    )


def trained_minutes(cells: Cells, name: str) -> str:
    """How many minutes the policies of a row were trained; empty where no cell says it."""
    found = [c["seconds"] for c in cells if c["row"] == name and c.get("seconds") is not None]
    return minutes(found) if found else ""


def minutes(seconds: Sequence[float]) -> str:
    """A time in minutes, or the shortest and the longest of several."""
    ends = dict.fromkeys(f"{end / 60:.1f}" for end in (min(seconds), max(seconds)))
    return " to ".join(ends)


def _pairs(cells: Cells, names: Sequence[str]) -> tuple[str, ...]:
    """What every row solves beyond the reference, of cells that keep their episodes."""
    rows = []
    for name in (name for name in names if name != REFERENCE):
        shown = [
            beyond(
                [with_all_tokens(cell) for cell in cells_of(cells, name, rule)],
                [with_all_tokens(cell) for cell in cells_of(cells, REFERENCE, rule)],
            )
            for rule in COMPARED
        ]
        if any(shown):
            rows.append((f"`{name}`", *shown))
    if not rows:
        return ()
    return (
        paragraph(
            f"Pair by pair with `{REFERENCE}` on the same episodes, all tokens each: how many "
            "points more are solved, with the 95 % interval, which counts episodes and not how "
            "much one training differs from the next, and the number of trainings of each that "
            "were compared, the first with the first; of one, the p-value of McNemar's exact test "
            "too."
        ),
        table(("policy", *COMPARED), rows),
    )


def beyond(found: Cells, reference: Cells) -> str:
    """What is solved beyond the reference, in words; nothing where one has not kept its episodes.

    Args:
        found: Results of some trainings.
        reference: The same of the reference.
    """
    pair = paired(reference, found)
    if pair is None:
        return ""
    result, num_trainings = pair
    low, points, high = (100 * x for x in (result.low, result.difference, result.high))
    p_value = f", p {result.p_value:.2g}" if num_trainings == 1 else ""
    return f"{points:+.1f} ({low:+.0f} to {high:+.0f}){p_value}; {num_trainings}"


def _num_seeds(cells: Cells, name: str) -> int:
    return len({cell["seed"] for cell in cells if cell["row"] == name})


def _trained(cells: Cells, name: str) -> tuple[str, ...]:
    """Training steps of a row's policy and, where it was trained, of its tokenizer, the weight of
    first actions in the latter, the width of the policy's targets, the layers of its offset head,
    and the number of frames that it sees."""
    cell = next(cell for cell in cells if cell["row"] == name)
    steps = cell["tokenizer_steps"]
    return (
        f"{cell['steps']:,}",
        "" if steps is None else f"{steps:,}",
        "" if steps is None else f"{cell['early_weight']:g}",
        f"{cell['code_smoothing']:g}",
        str(cell["offset_layers"] or ""),
        str(cell["history"]),
    )


def _row(cells: Cells, name: str, rules: Sequence[str], show: Callable[[Cells], str]) -> list[str]:
    """One cell of a table for each rule, from the results with all tokens."""
    shown = []
    for rule in rules:
        own = cells_of(cells, name, rule)
        shown.append(show([with_all_tokens(cell) for cell in own]) if own else "")
    return shown


def success_of_seeds(found: Cells) -> str:
    """Success of all seeds together, with the interval, then of each; empty without any."""
    if not found:
        return ""
    rates = [f["success"] for f in found]
    together = pooled(rates)
    low, high = (100 * together[end] for end in ("low", "high"))
    shown = f"{100 * together['rate']:.1f} ({low:.0f} - {high:.0f})"
    each = ", ".join(f"{100 * r['rate']:.1f}" for r in rates)
    return f"{shown}: {each}" if len(rates) > 1 else shown


def _by_task(found: Cells) -> str:
    by_task = zip(*([task["success"]["rate"] for task in f["tasks"]] for f in found), strict=True)
    return ", ".join(f"{100 * fmean(rates):.0f}" for rates in by_task)


def _smoothness(found: Cells) -> str:
    seam, inner = (
        fmean(f[name] for f in found if f[name] is not None) for name in ("seam_jump", "inner_jump")
    )
    steps = fmean(f["steps_per_query"] for f in found)
    return f"{seam:.3f}, {inner:.3f}; {steps:.3g}"


def _by_budget(cells: Cells, rule: str) -> str:
    own = by_seed([cell for cell in cells if cell["rule"] == rule])
    budgets = list(dict.fromkeys(b["budget"] for cell in own for b in cell["budgets"]))
    budgets.sort(key=lambda budget: (budget == "auto", 0 if budget == "auto" else budget))
    names = [name for name in ROWS if any(cell["row"] == name for cell in own)]
    rows = []
    for name in names:
        found = [b for cell in own if cell["row"] == name for b in cell["budgets"]]
        at = {budget: [b for b in found if b["budget"] == budget] for budget in budgets}
        rows.append((f"`{name}`", *(success_of_seeds(at[budget]) for budget in budgets)))
    return table((f"rule {rule}", *map(str, budgets)), rows)


def control_times(record: dict[str, Any]) -> str:
    settings, timed = record["settings"], record["results"]
    results, elsewhere = comparable_ms(timed), estimated(timed)
    budgets = sorted({int(b) for row in results.values() for b in row if b.isdecimal()})
    columns = [*map(str, budgets), "auto", "whole"]
    rows = [
        (
            f"`{name}`" + ", estimated" * (name in elsewhere),
            *(f"{results[name][c]:.2f}" if c in results[name] else "" for c in columns),
        )
        for name in TIMED
        if name in results
    ]
    return section(
        "Milliseconds of a query, in turns",
        paragraph(
            "Policies of the section above answer for the same "
            f"{settings['observations']} observations of held-out episodes, one after the other, "
            f"{settings['repeats']} times each, on {settings['threads']} thread, with the "
            "likeliest tokens: the median of an observation, the mean over observations. Columns "
            'are budgets: tokens, or Euler steps of a flow head; "whole" is a policy of LeRobot. '
            "A given number of either takes as long whatever the weights are, so some were "
            'trained for seconds; "auto", and `fast`, whose sequences differ in length, were timed '
            "where the policy was trained as above."
        ),
        *_orders(timed),
        *_timed_elsewhere(timed),
        table(("policy", *columns), rows),
        "![Success against the milliseconds of a query](drawings/success_and_time.svg)",
        paragraph(
            "*Success where policies look again after every 8 steps, with Wilson's 95 % interval, "
            "against these milliseconds. Lines join the budgets of a policy; policies on tokens "
            "were trained for 10,000 steps where their name says none.*"
        ),
        *(
            paragraph(f"Not drawn, though they acted under that rule: {_listed(names)}; {why}.")
            for why, names in left_out().items()
        ),
        script="control_times",
    )


def _orders(timed: dict[str, Any]) -> list[str]:
    """Which policies were asked in orders drawn at random, and which in a fixed one."""
    fixed = [name for name, row in timed.items() if not row["is_shuffled"]]
    sentences = []
    if len(fixed) < len(timed):
        sentences.append(
            "Every round has an order of its own, drawn at random with a seed, and a policy "
            "answers once untimed right before it is timed, so that no time depends on who was "
            "asked before."
        )
    if fixed:
        sentences.append(f"Timed when every round still had the same order: {_listed(fixed)}.")
        one_ms, two_ms = (timed[REFERENCE]["ms"].get(b, 0.0) for b in ("1", "2"))
        if REFERENCE in fixed and one_ms > two_ms:
            sentences.append(
                f"There `{REFERENCE}` with 1 token, {one_ms:.2f} ms, was always asked right after "
                "Diffusion Policy, whose process leaves cold caches; that it took longer than with "
                "2 says nothing about tokens."
            )
    return [paragraph(" ".join(sentences))]


def _timed_elsewhere(timed: dict[str, Any]) -> list[str]:
    """A sentence on the policies that were not timed in the run of `oat`."""
    others = estimated(timed)
    if not others:
        return []
    own_ms = timed["oat"]["reference_ms"]
    took = ", ".join(f"{ms:.2f}" for ms in sorted({timed[name]["reference_ms"] for name in others}))
    return [
        paragraph(
            f"Not measured beside the others but estimated, here and in the drawing: "
            f"{_listed(others)}. In the run that timed them `oat` with all tokens took {took} ms "
            f"and not {own_ms:.2f}, and what is shown is what they took there, multiplied by that "
            "ratio; it is right where whatever slowed `oat` would have slowed them by the same "
            "factor."
        )
    ]


def _listed(names: Sequence[str]) -> str:
    """Names of policies in the order of the tables, as the pages write them."""
    return "; ".join(f"`{name}`" for name in TIMED if name in names)
