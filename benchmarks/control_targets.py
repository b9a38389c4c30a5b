"""What was aimed at in closed loop on MetaWorld, and how far `oat` and `oat-pow2` came.

Aims were set before anything was measured; whether they are reached is decided by the JSON files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.closed_loop import pooled
from benchmarks.control_findings import (
    ORDERED,
    RULES,
    Cells,
    cells_of,
    listed,
    with_all_tokens,
)
from benchmarks.markdown import paragraph, table

AIMS = {"auto": 90, "half": 65}
"""Rules to the points that all tokens should solve, at least."""
WANTED_MINUTES = 60
"""Minutes of one core for tokenizer and policy together, at most: 30 of two cores."""
WANTED_NEAR = 2
"""Points that `budget="auto"` may lose to all tokens, and `execute="auto"` to the best fixed number
of steps of a task."""
WANTED_SHARE = 0.7
"""Share of the time of all tokens that `budget="auto"` may take, at most."""
DEPTHS = {
    "oat": "light, oat, 8 calls, offset",
    "oat-pow2": "light, oat-pow2, 4 calls, offset",
}
"""Rows to the names of policies with an offset head in `auto_depth`."""
NAME = {"auto": '"auto"', "half": "half a chunk"}
Training = tuple[int, float | None, float | None]
"""Seed and seconds of the trainings of policy and tokenizer, which tell one from another of the
same seed."""


def targets(cells: Cells, times: Mapping[str, Any], depths: Mapping[str, Any]) -> list[str]:
    """A table of aims; nothing where nothing was measured.

    Args:
        cells: Cells of `control`.
        times: Results of `control_times`.
        depths: Results of `auto_depth`.
    """
    names = [name for name in ORDERED if any(cell["row"] == name for cell in cells)]
    lines = [
        *(
            (f"{NAME[rule]}: {aim} % or more", *(_success(cells, name, rule) for name in names))
            for rule, aim in AIMS.items()
        ),
        (
            f"tokenizer and policy: at most {WANTED_MINUTES} minutes of one core",
            *(_minutes(cells, name) for name in names),
        ),
        (
            f'`budget="auto"`: at most {WANTED_NEAR} points below all tokens',
            *(_near_all_tokens(cells, name) for name in names),
        ),
        (
            f'`budget="auto"`: at most {WANTED_SHARE} of the time of all tokens',
            *(_share_of_time(name, times, depths) for name in names),
        ),
        (
            f'`execute="auto"`: at most {WANTED_NEAR} points below the best fixed number of steps '
            "of each task",
            *(_near_best_steps(cells, name) for name in names),
        ),
    ]
    shown = [line for line in lines if any(line[1:])]
    if not shown:
        return []
    return [
        paragraph(
            "What else was aimed at, and what came of it; in parentheses the number of trainings. "
            "The best of three fixed numbers of steps is partly luck, 50 episodes a task and "
            "training."
        ),
        table(("aim", *(f"`{name}`" for name in names)), shown),
        *trained_again(cells),
    ]


def trained_again(cells: Cells) -> list[str]:
    """A paragraph on rows whose rules were acted by different trainings of one seed."""
    found = []
    for name in dict.fromkeys(cell["row"] for cell in cells):
        by_training: dict[Training, list[str]] = defaultdict(list)
        for rule in RULES:
            for cell in cells_of(cells, name, rule):
                if cell.get("seconds") is not None:
                    by_training[_training(cell)].append(rule)
        for seed in sorted({seed for seed, *_ in by_training}):
            parts = [listed(rules) for each, rules in by_training.items() if each[0] == seed]
            if len(parts) > 1:
                found.append(f"`{name}`, seed {seed} ({'; '.join(parts)})")
    if not found:
        return []
    return [
        paragraph(
            "Some seeds were trained again, so that not all rules of a seed have the same weights: "
            + "; ".join(found)
            + "."
        )
    ]


def _training(cell: Mapping[str, Any]) -> Training:
    return cell["seed"], cell.get("seconds"), cell.get("tokenizer_seconds")


def _said(is_reached: bool, words: str) -> str:
    return f"{'reached' if is_reached else '**missed**'}: {words}"


def _success(cells: Cells, name: str, rule: str) -> str:
    found = [with_all_tokens(cell)["success"] for cell in cells_of(cells, name, rule)]
    if not found:
        return ""
    percent = 100 * pooled(found)["rate"]
    return _said(percent >= AIMS[rule], f"{percent:.1f} ({len(found)})")


def _minutes(cells: Cells, name: str) -> str:
    trainings = {_training(cell) for rule in RULES for cell in cells_of(cells, name, rule)}
    took = [
        (policy_s + tokenizer_s) / 60
        for _, policy_s, tokenizer_s in trainings
        if policy_s is not None and tokenizer_s is not None
    ]
    if not took:
        return ""
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(took), max(took)))
    return _said(max(took) <= WANTED_MINUTES, f"{' to '.join(ends)} ({len(took)})")


def _near_all_tokens(cells: Cells, name: str) -> str:
    words, is_reached = [], True
    for rule, rule_words in RULES.items():
        pairs = []
        for cell in cells_of(cells, name, rule):
            (auto,) = [b for b in cell["budgets"] if b["budget"] == "auto"] or [None]
            if auto is not None:
                pairs.append((auto["success"], with_all_tokens(cell)["success"]))
        if pairs:
            auto, whole = (pooled(rates)["rate"] for rates in zip(*pairs, strict=True))
            points = round(100 * (auto - whole), 1) + 0.0
            is_reached = is_reached and points >= -WANTED_NEAR
            words.append(f"{points:+.1f} {rule_words} ({len(pairs)})")
    return _said(is_reached, listed(words)) if words else ""


def _share_of_time(name: str, times: Mapping[str, Any], depths: Mapping[str, Any]) -> str:
    shares = dict(_shares(name, times, depths))
    if not shares:
        return ""
    words = listed([f"{share:.2f} in `{source}`" for source, share in shares.items()])
    return _said(max(shares.values()) <= WANTED_SHARE, words)


def _shares(
    name: str, times: Mapping[str, Any], depths: Mapping[str, Any]
) -> Iterator[tuple[str, float]]:
    """Benchmarks that timed `auto`, and its share of the time of all tokens there."""
    ms = times.get(name, {}).get("ms", {})
    if "auto" in ms:
        yield "control_times", ms["auto"] / ms[max((b for b in ms if b.isdecimal()), key=int)]
    autos = [row for row in depths.get(DEPTHS[name], {}).get("rows", []) if row["budget"] == "auto"]
    if autos:  # the first has the margin that policies are calibrated with
        yield "auto_depth", autos[0]["share_of_all"]


def _near_best_steps(cells: Cells, name: str) -> str:
    acted: dict[Training, dict[str, Mapping[str, float]]] = defaultdict(dict)
    for rule in RULES:
        for cell in cells_of(cells, name, rule):
            tasks = with_all_tokens(cell).get("tasks", [])
            acted[_training(cell)][rule] = {t["task"]: t["success"]["rate"] for t in tasks}
    whole = [rules for rules in acted.values() if len(rules) == len(RULES) and all(rules.values())]
    if not whole:
        return ""
    behind = {
        task: 100 * sum(_behind(rules, task) for rules in whole) / len(whole)
        for task in whole[0]["auto"]
    }
    words = listed([f"{task} {round(points, 1) + 0.0:+.1f}" for task, points in behind.items()])
    is_reached = min(behind.values()) >= -WANTED_NEAR - 1e-9
    return _said(is_reached, f"{words} ({len(whole)})")


def _behind(rules: Mapping[str, Mapping[str, float]], task: str) -> float:
    """What "auto" solves of a task less what the best fixed number of steps does."""
    fixed: Sequence[float] = [found[task] for rule, found in rules.items() if rule != "auto"]
    return rules["auto"][task] - max(fixed)
