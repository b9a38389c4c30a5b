"""What the JSON files of `benchmarks/results/` say about a claim of the paper.

Nothing here is decided by hand: a claim of `benchmarks.claims` has a function that reads results
and returns what was found, and the ends of the 95 % interval of a difference decide whether it
agrees. Policies whose recipes differ in more than their tokens do not decide anything.

`light_findings.py`, `tokenizer_findings.py` and `large_findings.py` hold those functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.closed_loop import solved_by_both
from oatkit.evaluation.success_statistics import compare_pairs

AGREES, DIFFERS, UNSURE, MISSING = "agrees", "does not", "too few episodes to tell", "not measured"
SAME = 0.05
"""Largest difference of success that counts as none."""


@dataclass(frozen=True)
class Found:
    """What was found about a claim.

    Attributes:
        ours: Numbers in words.
        status: Whether it agrees.
        source: Names of the JSON files that say so, with commas between, where there are any.
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
        needs: Says what it takes to measure it; None for what cannot be run here.
        rows: Rows of the table that decide it, where one need not run them all.
    """

    table: str
    says: str
    paper: str
    find: Callable[[], Found]
    needs: Callable[[], str] | None = None
    rows: tuple[str, ...] = ()

    def found(self) -> Found:
        """What was found; where nothing was measured, its status says what that takes."""
        one = self.find()
        if self.needs is None or not one.status.startswith(MISSING):
            return one
        return replace(one, status=f"{one.status}: {self.needs()}")


Judge = Callable[[float, float], str]
"""The ends of an interval to a status."""
Recipe = Mapping[str, Any]
"""What decides how a training comes out beside its tokens, by words: `{"steps": 2500, ...}`."""
NOT_MEASURED = Found("", MISSING)
FITTED = "tokenizer steps"
"""The entry of a recipe that tokenizers without training have none of."""


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
        how: Tokens and temperature, in words.
        source: Name of the JSON file that says so.
        recipes: How each of its trainings was done.
        solved: Seeds of goals to which of their episodes were solved; empty where that is not
            stored.
    """

    success: Mapping[str, Any]
    how: str
    source: str
    recipes: tuple[Recipe, ...]
    solved: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def is_paired_with(self, other: Acting) -> bool:
        """Whether both say which of the same episodes they solved."""
        counts = [
            {
                seed: {task: len(letters) for task, letters in solved.items()}
                for seed, solved in acting.solved.items()
            }
            for acting in (self, other)
        ]
        is_whole = 0 < len(self.solved) == len(self.recipes)
        return self.source == other.source and is_whole and counts[0] == counts[1]

    def less(self, other: Acting) -> tuple[float, float, float]:
        """How much more often this one succeeds than another, with its interval: pair by pair
        where that is possible."""
        if not self.is_paired_with(other):
            return difference(other.success, self.success)
        both = [(other.solved[seed], self.solved[seed]) for seed in self.solved]
        pair = compare_pairs("other", "this", solved_by_both(*zip(*both, strict=True)))
        return pair.difference, pair.low, pair.high


def compared(
    first: Callable[[], Acting | None], second: Callable[[], Acting | None], judge: Judge
) -> Callable[[], Found]:
    """A function that says how much more often the second of two acts with success."""

    def find() -> Found:
        one, other = first(), second()
        if one is None or other is None:
            return NOT_MEASURED
        change, low, high = other.less(one)
        rates = [f"{100 * acting.success['rate']:.0f}" for acting in (one, other)]
        episodes = " and ".join(str(acting.success["episodes"]) for acting in (one, other))
        episodes += " episodes, unpaired,"
        if one.is_paired_with(other):
            episodes = f"the same {one.success['episodes']} episodes"
        seeds = [str(len(acting.recipes)) for acting in (one, other)]
        ours = (
            f"{' and '.join(rates)} %: {100 * change:+.0f} points "
            f"({100 * low:+.0f} to {100 * high:+.0f}), {episodes} of "
            f"{' and '.join(seeds)} seeds, "
            f"{' and '.join(dict.fromkeys((one.how, other.how)))}"
        )
        source = ", ".join(dict.fromkeys((one.source, other.source)))
        return judged(ours, source, (*one.recipes, *other.recipes), (low, high), judge)

    return find


Pair = tuple[Acting | None, Acting | None]
"""The one that is to succeed less often and the other; None for what was not measured."""


def trend(pairs: Callable[[], Mapping[str, Pair]]) -> Callable[[], Found]:
    """A function for a claim that of all pairs the second acts more often with success: none that
    was measured may contradict it, and one at least has to decide.

    Args:
        pairs: Gives what is compared by its name.
    """

    def find() -> Found:
        whole = {name: (one, two) for name, (one, two) in pairs().items() if one and two}
        if not whole:
            return NOT_MEASURED
        statuses = {name: _status(*pair) for name, pair in whole.items()}
        known = (s for s in (DIFFERS, AGREES, UNSURE) if s in statuses.values())
        status = next(known, next(iter(statuses.values())))
        lines = [f"{name}: {_contrast(*pair)} ({statuses[name]})" for name, pair in whole.items()]
        every = [acting for pair in whole.values() for acting in pair]
        each = " or ".join(dict.fromkeys(_protocol(acting) for acting in every))
        source = ", ".join(dict.fromkeys(acting.source for acting in every))
        return Found(f"{'; '.join(lines)}; each of {each}", status, source)

    return find


def _status(one: Acting, other: Acting) -> str:
    _, low, high = other.less(one)
    return judged("", "", (*one.recipes, *other.recipes), (low, high), is_larger).status


def _contrast(one: Acting, other: Acting) -> str:
    """How often two act with success, and the difference, in words."""
    change, low, high = (100 * end for end in other.less(one))
    rates = " and ".join(f"{100 * acting.success['rate']:.0f}" for acting in (one, other))
    how = ", pair by pair" if other.is_paired_with(one) else ""
    return f"{rates} %, {change:+.0f} points ({low:+.0f} to {high:+.0f}){how}"


def _protocol(acting: Acting) -> str:
    seeds = len(acting.recipes)
    return (
        f"{acting.success['episodes']} episodes of {seeds} seed{'s' if seeds > 1 else ''}, "
        f"{acting.how}, {acting.recipes[0]['steps']} steps"
    )


def judged(
    ours: str, source: str, recipes: Sequence[Recipe], ends: tuple[float, float], judge: Judge
) -> Found:
    """What the ends of an interval say, where all were trained alike."""
    if different := differences(recipes):
        return Found(ours, f"{MISSING} (not only the tokens differ: {different})", source)
    return Found(f"{ours}, {recipes[0]['steps']} steps", judge(*ends), source)


def differences(recipes: Sequence[Recipe]) -> str:
    """What differs between trainings, in words; empty where they are alike."""
    found = []
    for name in dict.fromkeys(name for recipe in recipes for name in recipe):
        values = dict.fromkeys(recipe.get(name) for recipe in recipes)
        if name == FITTED:
            values.pop(None, None)
        if len(values) > 1:
            shown = ("not stored" if value is None else str(value) for value in values)
            found.append(f"{name} {' and '.join(shown)}")
    return "; ".join(found)


def pooled_difference(pairs: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """The mean of paired differences of several trainings, by their episodes, with its interval.

    The ends are joined as those of independent estimates (MOVER).
    """
    total = sum(pair["episodes"] for pair in pairs)
    shares = [pair["episodes"] / total for pair in pairs]
    both = list(zip(shares, pairs, strict=True))
    change = sum(share * pair["difference"] for share, pair in both)
    down = math.hypot(*(share * (pair["difference"] - pair["low"]) for share, pair in both))
    up = math.hypot(*(share * (pair["high"] - pair["difference"]) for share, pair in both))
    return change, change - down, change + up
