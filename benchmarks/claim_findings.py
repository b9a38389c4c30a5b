"""What the JSON files of `benchmarks/results/` say about a claim of the paper.

Nothing here is decided by hand: a claim of `benchmarks.claims` has a function that reads results
and returns what was found, and the ends of the 95 % interval of a difference decide whether it
agrees. Policies that were not trained alike are not compared.

`light_findings.py`, `tokenizer_findings.py` and `large_findings.py` hold those functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

AGREES, DIFFERS, UNSURE, MISSING = "agrees", "does not", "too few episodes to tell", "not measured"
SAME = 0.05
"""Largest difference of success that counts as none."""


@dataclass(frozen=True)
class Found:
    """What was found about a claim.

    Attributes:
        ours: Numbers in words.
        status: Whether it agrees.
        source: Name of the JSON file that says so, where there is one.
    """

    ours: str
    status: str
    source: str = ""


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


@dataclass(frozen=True)
class Acting:
    """How often a policy acts with success.

    Attributes:
        success: Rate with its interval, and the number of episodes.
        steps: Training steps of the policy.
        how: Tokens and temperature, in words.
        source: Name of the JSON file that says so.
        tokenizer_steps: Training steps of its tokenizer; 0 where it was fitted or none are stored.
        seeds: Number of trainings.
    """

    success: Mapping[str, Any]
    steps: int
    how: str
    source: str
    tokenizer_steps: int = 0
    seeds: int = 1


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
        seeds = [str(acting.seeds) for acting in (one, other)]
        ours = (
            f"{' and '.join(rates)} %: {100 * change:+.0f} points "
            f"({100 * low:+.0f} to {100 * high:+.0f}), {' and '.join(episodes)} episodes of "
            f"{' and '.join(seeds)} seeds, "
            f"{' and '.join(dict.fromkeys((one.how, other.how)))}"
        )
        return judged(ours, (one, other), (low, high), judge)

    return find


def judged(ours: str, both: Sequence[Acting], ends: tuple[float, float], judge: Judge) -> Found:
    """What the ends of an interval say, where all were trained for as many steps."""
    source = ", ".join(dict.fromkeys(acting.source for acting in both))
    learned = {acting.tokenizer_steps for acting in both} - {0}
    for what, steps in (("policies", {acting.steps for acting in both}), ("tokenizers", learned)):
        if len(steps) > 1:
            why = f"{what} of {min(steps)} and of {max(steps)} steps say nothing about tokens"
            return Found(ours, f"{MISSING} ({why})", source)
    return Found(f"{ours}, {both[0].steps} steps", judge(*ends), source)
