"""How `oat` stands beside other policies in closed loop, and what more tokens are worth to it.

Nothing here is decided by hand: `oat` is ahead of a policy where the 95 % interval of the
difference, pair by pair on the same episodes, is above 0, behind it where the interval is below 0,
and level with it where it holds 0. With more trainings in the JSON the page says something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.claim_findings import difference
from benchmarks.closed_loop import pooled, solved_by_both
from benchmarks.markdown import paragraph, table
from oatkit.evaluation.success_statistics import compare_pairs
from oatkit.types import PairedComparison

REFERENCE = "oat"
"""The row of `control` that the others are compared with."""
RULES = {
    "half": "at half a chunk",
    "8": "after 8 steps",
    "4": "after 4 steps",
    "auto": 'by "auto"',
}
"""Rules of `control` by which rows are compared, in words."""
RIVALS = ("oat-pow2", "quest", "acodec", "klt", "light-flow")
"""Rows of `control` with the preset of `oat`."""
LEROBOT = {"act": "ACT", "diffusion": "Diffusion Policy"}
"""Kinds of `neighbors` to their names."""
LEROBOT_RULES = {"half": "16 steps", "8": "8 steps", "4": "4 steps"}
"""Rules of `control` to those of `neighbors`."""
ORDERED = ("oat", "oat-pow2")
"""Rows whose budgets are compared."""
WANTED_RISE, WANTED_LOSS = 10, 2
"""Points that all tokens should solve beyond one token, at least, and that a doubling may cost."""
VERDICTS = ("ahead", "level", "behind")
Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Standing:
    """How `oat` stands beside another policy under a rule, in points of success.

    Attributes:
        rule: The rule.
        name: Name of the other policy, as pages write it.
        points: How much more `oat` solves.
        low: Lower end of the 95 % interval.
        high: Upper end.
        trainings: Number of trainings of each that were compared.
    """

    rule: str
    name: str
    points: float
    low: float
    high: float
    trainings: int

    @property
    def verdict(self) -> str:
        if self.low > 0:
            return "ahead"
        return "behind" if self.high < 0 else "level"

    def __str__(self) -> str:
        verdict = self.verdict if self.verdict == "level" else f"**{self.verdict}**"
        return f"{verdict} {round(self.points, 1) + 0.0:+.1f} ({self.trainings})"  # -0.0 is +0.0


def statement(cells: Cells, neighbors: Cells) -> list[str]:
    """A table of where `oat` is ahead, level and behind, and a paragraph on budgets; nothing of
    what was not measured.

    Args:
        cells: Cells of `control`.
        neighbors: Rows of `neighbors`.
    """
    return [*_beside_others(standings(cells, neighbors)), *_by_budget(cells)]


def standings(cells: Cells, neighbors: Cells) -> list[Standing]:
    """How `oat` stands beside every policy under every rule that both have acted by."""
    found = []
    for rule in RULES:
        own = [with_all_tokens(cell) for cell in cells_of(cells, REFERENCE, rule)]
        for name, theirs in _rivals(cells, neighbors, rule):
            pair = paired(own, theirs)
            if pair is not None:
                result, trainings = pair
                points, low, high = (
                    100 * x for x in (-result.difference, -result.high, -result.low)
                )
                found.append(Standing(rule, name, points, low, high, trainings))
    return found


def _rivals(cells: Cells, neighbors: Cells, rule: str) -> Iterator[tuple[str, Cells]]:
    """Names of the other policies, with their results under a rule, one for each training."""
    for row in RIVALS:
        yield f"`{row}`", [with_all_tokens(cell) for cell in cells_of(cells, row, rule)]
    theirs = LEROBOT_RULES.get(rule)
    for kind, name in LEROBOT.items():
        trained = [row for row in by_seed(neighbors) if row["kind"] == kind]
        yield name, [row["rules"][theirs] for row in trained if theirs in row["rules"]]


def paired(first: Cells, second: Cells) -> tuple[PairedComparison, int] | None:
    """What the second solve beyond the first on the episodes that both have, and of how many
    trainings each, the first with the first; None where there are no such episodes.

    Args:
        first: Results of some trainings; older ones do not keep which episodes were solved.
        second: The same of another policy.
    """
    kept = [[f["solved"] for f in each if "solved" in f] for each in (first, second)]
    pairs = solved_by_both(*kept)
    return (compare_pairs("first", "second", pairs), min(map(len, kept))) if pairs else None


def by_seed(rows: Cells) -> list[Mapping[str, Any]]:
    """Rows or cells in the order of their seeds, whichever was measured first."""
    return sorted(rows, key=lambda row: int(row["seed"]))


def cells_of(cells: Cells, name: str, rule: str) -> list[Mapping[str, Any]]:
    """The cells of a row and rule, one for each seed."""
    return by_seed([cell for cell in cells if (cell["row"], cell["rule"]) == (name, rule)])


def with_all_tokens(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The results with all tokens."""
    numbers = [b for b in cell["budgets"] if b["budget"] != "auto"]
    largest: dict[str, Any] = max(numbers, key=lambda b: b["budget"])
    return largest


def _beside_others(found: Sequence[Standing]) -> list[str]:
    if not found:
        return []
    counts = [sum(each.verdict == verdict for each in found) for verdict in VERDICTS]
    ahead, level, behind = (str(count) if count else "none" for count in counts)
    sentences = [
        f"Where `{REFERENCE}` stands beside policies of the same preset and LeRobot's, with all "
        "tokens, pair by pair on the same episodes: ahead or behind where the 95 % interval is on "
        "one side of 0, level where it holds 0. The points are what it solves more; in parentheses "
        "is the number of trainings of each that this rests on. Intervals count episodes, not how "
        "much one training differs from the next, nor how many comparisons there are.",
        f"Of {len(found)} it is ahead in {ahead}, level in {level} and behind in {behind}.",
    ]
    columns = [rule for rule in RULES if any(each.rule == rule for each in found)]
    lines = []
    for name in dict.fromkeys(each.name for each in found):
        own = {each.rule: str(each) for each in found if each.name == name}
        lines.append((name, *(own.get(rule, "") for rule in columns)))
    headings = (f"`{REFERENCE}` beside", *(RULES[rule] for rule in columns))
    return [paragraph(*sentences), table(headings, lines)]


def _by_budget(cells: Cells) -> list[str]:
    """Whether success rises with the number of tokens, of policies with several."""
    shown, enough, costly = [], [], []
    for name in ORDERED:
        changes = {rule: _changes(cells_of(cells, name, rule)) for rule in RULES}
        measured = {rule: found for rule, found in changes.items() if found}
        if not measured:
            continue
        whole = {rule: found[0] for rule, found in measured.items()}
        rule, worst = min(
            ((rule, each) for rule, found in measured.items() for each in found[1:]),
            key=lambda found: found[1].points,
        )
        rises = [RULES[rule] for rule, each in whole.items() if each.low > 0]
        first = next(iter(whole.values()))
        each_rule = [f"{each.points:+.1f} {RULES[rule]} ({each})" for rule, each in whole.items()]
        shown.append(
            f"`{name}` with {first.more} in place of {first.fewer} {listed(each_rule)}, above 0 "
            f"with its whole interval {listed(rises) or 'nowhere'}; the worst doubling is from "
            f"{worst.fewer} to {worst.more} {RULES[rule]}, {worst.points:+.1f} ({worst})."
        )
        reached = [RULES[rule] for rule, each in whole.items() if each.points >= WANTED_RISE]
        enough += [f"`{name}` {listed(reached)}"] if reached else []
        costly += [f"`{name}`"] if worst.points < -WANTED_LOSS else []
    if not shown:
        return []
    return [
        paragraph(
            "What more tokens are worth, in points, with the 95 % interval of two independent "
            "rates and the number of trainings:",
            *shown,
            f"Aimed at were {WANTED_RISE} points, reached by {listed(enough) or 'none'}, and no "
            f"doubling that costs more than {WANTED_LOSS}, missed by {listed(costly) or 'none'}.",
        )
    ]


@dataclass(frozen=True)
class Change:
    """What more tokens change, in points of success.

    Attributes:
        fewer: The smaller budget.
        more: The larger one.
        points: How much more it solves.
        low: Lower end of the 95 % interval.
        high: Upper end.
        trainings: Number of trainings that acted with both.
    """

    fewer: int
    more: int
    points: float
    low: float
    high: float
    trainings: int

    def __str__(self) -> str:
        return f"{self.low:+.0f} to {self.high:+.0f}; {self.trainings}"


def _changes(cells: Cells) -> list[Change]:
    """From one token to all, then of each doubling; empty where a single budget acted."""
    rates = [
        {b["budget"]: b["success"] for b in cell["budgets"] if b["budget"] != "auto"}
        for cell in cells
    ]
    budgets = sorted({budget for each in rates for budget in each})
    if len(budgets) < 2:
        return []
    found = []
    for fewer, more in ((budgets[0], budgets[-1]), *pairwise(budgets)):
        both = [each for each in rates if fewer in each and more in each]
        if both:
            one, other = (pooled([each[budget] for each in both]) for budget in (fewer, more))
            points, low, high = (round(100 * x, 9) for x in difference(one, other))
            found.append(Change(fewer, more, points, low, high, len(both)))
    return found


def listed(names: Sequence[str]) -> str:
    """Words in a row: `a, b and c`; empty without any."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
