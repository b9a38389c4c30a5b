"""How many calls policies took for a chunk, beside what the paper lists; their counts decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.claim_findings import AGREES, DIFFERS, MISSING, NOT_MEASURED, Found
from benchmarks.closed_loop import fixed_budgets
from benchmarks.record import read_result, read_results

TABLE, CONTROL, LATENCY = "policy_table", "control", "policy_latency"
CALLS: Mapping[str, Callable[[int, int], int]] = {
    "bin": lambda tokens, horizon: horizon,
    "quest": lambda tokens, horizon: tokens,
    "acodec": lambda tokens, horizon: 1,
    "oat": lambda tokens, horizon: tokens,
    "oat-pow2": lambda tokens, horizon: 1 + math.ceil(math.log2(tokens)),
}
"""Calls for so many tokens of a chunk of so many actions, as the paper lists them."""


@dataclass(frozen=True)
class Counted:
    """A policy whose calls were counted.

    Attributes:
        row: Name of its row, in words; empty where it is the name of its kind.
        source: Name of the JSON file.
        horizon: Number of actions in a chunk.
        budgets: What was counted at each number of tokens that was asked for.
    """

    row: str
    source: str
    horizon: int
    budgets: Sequence[Mapping[str, Any]]


def calls_of_schemes() -> Found:
    """Whether policies took as many calls for a chunk as the paper lists, of every scheme."""
    found = {kind: one for kind in (*CALLS, "fast") if (one := _counted(kind))}
    if not found:
        return NOT_MEASURED
    shown = "; ".join(f"`{kind}` {_words(kind, one)}" for kind, one in found.items())
    status, missing = AGREES, [kind for kind in (*CALLS, "fast") if kind not in found]
    if missing:
        status = f"{MISSING} (no policy on {' and '.join(f'`{kind}`' for kind in missing)})"
    if not all(
        _is_listed(kind, budget, one.horizon)
        for kind, one in found.items()
        for budget in one.budgets
    ):
        status = DIFFERS
    source = ", ".join(dict.fromkeys(one.source for one in found.values()))
    return Found(f"calls for so many tokens: {shown}", status, source)


def _counted(kind: str) -> Counted | None:
    """A kind's policy in the light table, or one of `benchmarks.control`: neither training nor
    execution decides how many calls a chunk takes."""
    row = read_results(TABLE).get("state", {}).get(kind)
    if row is not None:
        return Counted("", TABLE, row["protocol"]["horizon"], fixed_budgets(row))
    cells = read_results(CONTROL).get("cells", {}).items()
    named = [(key, cell) for key, cell in cells if cell["row"].split(",")[0] == kind]
    if not named:
        return None
    key, cell = named[0]
    horizon = read_result(CONTROL)["settings"]["horizon"]
    return Counted(f"cell `{key}` of `{CONTROL}`", CONTROL, horizon, fixed_budgets(cell))


def _is_listed(kind: str, budget: Mapping[str, Any], horizon: int) -> bool:
    """Whether the calls of a budget are those of the paper; `fast` has one more for the end."""
    calls, tokens = budget["calls"], budget["tokens"]
    if kind == "fast":
        return bool(tokens <= calls <= tokens + 1)
    return bool(calls == CALLS[kind](round(tokens), horizon))


def _words(kind: str, one: Counted) -> str:
    end = " and their end" if kind == "fast" else ""
    each = ", ".join(f"{b['calls']:.3g} for {b['tokens']:.3g}{end}" for b in one.budgets)
    return f"{each} ({one.row})" if one.row else each


def calls_of_16_tokens() -> Found:
    """How many calls a chunk of 16 tokens takes, by a light policy."""
    found = read_results(LATENCY)
    if not found:
        return NOT_MEASURED
    ways = ("token-wise", "powers of two")
    one, grouped = (found["schedules"][f"16 tokens, {way}"]["calls"] for way in ways)
    words = (
        f"{one} and {grouped} calls of a light policy of {found['parameters'] / 1e6:.1f}M "
        "parameters; of vision-language policies they were not counted"
    )
    return Found(words, AGREES if (one, grouped) == (16, 5) else DIFFERS, LATENCY)
