"""What the JSON files of `benchmarks/results/` say about a claim of the paper.

Nothing here is decided by hand: a claim of `benchmarks.claims` has a function that reads results
and returns what was found, and the ends of the 95 % interval of a difference decide whether it
agrees. Policies that were trained for different numbers of steps are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.closed_loop import comparison, over_seeds, pooled
from benchmarks.record import read_results
from oatkit.types import budget_name

AGREES, DIFFERS, UNSURE, MISSING = "agrees", "does not", "too few episodes to tell", "not measured"
SAME = 0.05
"""Largest difference of success that counts as none."""
TAUGHT = "co-trained, then expert"
"""Recipe of `benchmarks.vlm_expert` that co-training is compared by."""
TRACKS = 1.25
"""Largest factor between two errors that track each other."""


@dataclass(frozen=True)
class Found:
    """What was found about a claim.

    Attributes:
        ours: Numbers in words.
        status: Whether it agrees.
    """

    ours: str
    status: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        table: Name of the table or figure in `PAPER_TABLES`.
        says: What the paper claims.
        paper: Numbers of the paper, in words.
        find: Function that reads what was measured here.
    """

    table: str
    says: str
    paper: str
    find: Callable[[], Found]


Judge = Callable[[float, float], str]
"""The ends of an interval to a status."""
NOT_MEASURED = Found("", MISSING)


def cannot(why: str) -> Callable[[], Found]:
    """A function for what cannot be run here."""
    return lambda: Found("", f"cannot be run here ({why})")


def difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[float, float, float]:
    """Second rate less the first, with Newcombe's interval for independent proportions."""
    change = second["rate"] - first["rate"]
    down = math.hypot(second["rate"] - second["low"], first["high"] - first["rate"])
    up = math.hypot(second["high"] - second["rate"], first["rate"] - first["low"])
    return change, change - down, change + up


def is_larger(low: float, high: float) -> str:
    """The status of a claim that a difference is more than nothing."""
    return AGREES if low > 0 else DIFFERS if high < 0 else UNSURE


def is_nothing(low: float, high: float) -> str:
    """The status of a claim that there is no difference that matters."""
    if low > SAME or high < -SAME:
        return DIFFERS
    return AGREES if low >= -SAME and high <= SAME else UNSURE


# Light policies: paired comparisons with `oat` at 8 tokens are in the JSON


def than_oat(row: str, judge: Judge, budget: int | None = None) -> Callable[[], Found]:
    """A function that compares `oat` at 8 tokens with another row, on the same episodes.

    Args:
        row: Name of the row.
        judge: What the ends of the interval say.
        budget: Budget of the row, where it has several.
    """

    def find() -> Found:
        schemes = over_seeds(read_results("policy_table").get("state", {}))
        own, others = schemes.get("oat", []), schemes.get(row, [])
        if not others:
            return NOT_MEASURED
        asked = others[0]["budgets"][-1]["budget"] if budget is None else budget
        pair = comparison(others, budget_name(asked))
        if pair is None:
            return NOT_MEASURED
        low, high = -pair["high"], -pair["low"]
        ours = (
            f"{-100 * pair['difference']:+.1f} points ({100 * low:+.0f} to {100 * high:+.0f}), "
            f"{pair['episodes']} episodes, temperature {_temperature(others[0])}"
        )
        if pair.get("seeds", 1) > 1:
            ours += f", {pair['seeds']} seeds"
        return _judged(ours, {r["steps"] for r in (*own, *others)}, low, high, judge)

    return find


def _temperature(row: Mapping[str, Any]) -> str:
    return f"{row['protocol']['sampling']['temperature']:g}"


def _judged(ours: str, steps: set[int], low: float, high: float, judge: Judge) -> Found:
    """What the ends of an interval say, where all were trained for as many steps."""
    if len(steps) > 1:
        why = f"{min(steps)} steps of training against {max(steps)} say nothing about tokens"
        return Found(ours, f"{MISSING} ({why})")
    return Found(f"{ours}, {steps.pop()} steps", judge(low, high))


# Tokenizers


def _errors(kind: str) -> list[float]:
    rows = read_results("tokenizer_rate_distortion").get("metaworld", {})
    return [1e3 * budget["mse"] for budget in rows.get(kind, {}).get("budgets", [])]


def falls(kind: str) -> Callable[[], Found]:
    """A function that says whether the error of a kind falls with every budget."""

    def find() -> Found:
        errors = _errors(kind)
        if not errors:
            return NOT_MEASURED
        is_falling = all(after < before for before, after in pairwise(errors))
        shown = " / ".join(f"{error:.3g}" for error in errors)
        return Found(f"{shown} x 0.001", AGREES if is_falling else DIFFERS)

    return find


def tracks() -> Found:
    """Whether the errors of powers of two stay near those of one by one."""
    one, grouped = _errors("oat"), _errors("oat-pow2")
    if not one or not grouped:
        return NOT_MEASURED
    factors = [b / a for a, b in zip(one, grouped, strict=True)]
    widest = max(max(factor, 1 / factor) for factor in factors)
    status = AGREES if widest <= TRACKS else DIFFERS
    return Found(f"within a factor of {widest:.2f} at every budget", status)


def nearly_lossless() -> Found:
    """Whether the error of `bin` is the smallest."""
    kinds = ("bin", "fast, fitted", "quest", "acodec", "oat", "oat-pow2")
    last = {kind: errors[-1] for kind in kinds if (errors := _errors(kind))}
    if len(last) < len(kinds):
        return NOT_MEASURED
    shown = f"`bin` {last['bin']:.2g}, the next {sorted(last.values())[1]:.2g} x 0.001"
    return Found(shown, AGREES if min(last, key=last.__getitem__) == "bin" else DIFFERS)


# Two rates of success, of policies that were not paired


@dataclass(frozen=True)
class Acting:
    """How often a policy acts with success.

    Attributes:
        success: Rate with its interval, and the number of episodes.
        steps: Training steps of the policy.
        how: Seeds, tokens and temperature, in words.
    """

    success: Mapping[str, Any]
    steps: int
    how: str


def compared(
    first: Callable[[], Acting | None], second: Callable[[], Acting | None], judge: Judge
) -> Callable[[], Found]:
    """A function that says how much more often the second of two acts with success."""

    def find() -> Found:
        one, other = first(), second()
        if one is None or other is None:
            return NOT_MEASURED
        change, low, high = difference(one.success, other.success)
        rates = [f"{100 * acting.success['rate']:.0f}" for acting in (one, other)]
        episodes = [str(acting.success["episodes"]) for acting in (one, other)]
        ours = (
            f"{' and '.join(rates)} %: {100 * change:+.0f} points "
            f"({100 * low:+.0f} to {100 * high:+.0f}), {' and '.join(episodes)} episodes, "
            f"{' and '.join(dict.fromkeys((one.how, other.how)))}"
        )
        return _judged(ours, {one.steps, other.steps}, low, high, judge)

    return find


def swept(table: str, first: str, second: str, judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the ablations in closed loop, over all seeds."""

    def acting(name: str) -> Acting | None:
        rows = over_seeds(read_results("policy_sweep").get(table, {})).get(name)
        if not rows:
            return None
        success = pooled([row["budgets"][-1]["success"] for row in rows])
        return Acting(success, rows[0]["steps"], f"temperature {_temperature(rows[0])}")

    return compared(lambda: acting(first), lambda: acting(second), judge)


# Vision-language policies, on small backbones with random weights


def grouping(first: tuple[str, str], second: tuple[str, str], judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the pipeline, each acting in some way."""

    def acting(row: str, way: str) -> Acting | None:
        found = read_results("vlm_pipeline").get("policies", {}).get(row)
        if found is None or way not in found["closed loop"]:
            return None
        settings = found["settings"]
        how = f"{settings['tokens']} tokens, temperature 0"  # the pipeline has no other
        return Acting(found["closed loop"][way]["all"], settings["steps"], how)

    return compared(lambda: acting(*first), lambda: acting(*second), judge)


def taught_by(kind: str, judge: Judge, family: str = "paligemma2") -> Callable[[], Found]:
    """A function that compares co-training by `oat` with that by another kind, over all seeds."""

    def acting(kind: str) -> Acting | None:
        rows = [
            row
            for row in read_results("vlm_expert").get("rows", {}).values()
            if row["recipe"] == TAUGHT and (row["kind"], row["family"]) == (kind, family)
        ]
        if not rows:
            return None
        success = pooled([row["success"]["flow, deterministic"]["all"] for row in rows])
        steps = round(sum(stage["share"] for stage in rows[0]["stages"]) * rows[0]["steps"])
        return Acting(success, steps, "the flow from zero noise")

    return compared(lambda: acting(kind), lambda: acting("oat"), judge)


def calls() -> Found:
    """How many calls a chunk of 16 tokens takes."""
    rows = read_results("policy_latency").get("schedules", {})
    if not rows:
        return NOT_MEASURED
    found = [rows[f"16 tokens, {how}"]["calls"] for how in ("token-wise", "powers of two")]
    return Found(f"{found[0]} and {found[1]} calls", AGREES if found == [16, 5] else DIFFERS)
