"""What light policies say about a claim of the paper.

Rows of `benchmarks.control` that execute half a chunk come first: they are the newest. What is
missing there is taken from `benchmarks.policy_table`, whose rows keep their comparison with `oat`
at 8 tokens pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.claim_findings import (
    AGREES,
    DIFFERS,
    NOT_MEASURED,
    Acting,
    Found,
    Judge,
    compared,
    judged,
)
from benchmarks.closed_loop import comparison, over_seeds, pooled
from benchmarks.record import read_results
from oatkit.types import budget_name

PAPERS_RULE = "half"
"""How the paper executes chunks, by the name that `benchmarks.control` has for it."""
TABLE = "policy_table"
OWN = "oat"
CONTROL_ROWS = ("oat", "oat-pow2", "quest", "acodec", "fast", "bin", "oat, no nesting")
"""Rows of `benchmarks.control` that are the paper's, or ablations of those."""


def than_oat(row: str, judge: Judge, budget: int | None = None) -> Callable[[], Found]:
    """A function that compares `oat` at 8 tokens with another row.

    Args:
        row: Name of the row.
        judge: What the ends of the interval say.
        budget: Budget of the row, where it has several.
    """

    def find() -> Found:
        other, own = controlled(row, budget), controlled(OWN)
        if other is None or own is None:
            return _paired(row, judge, budget)
        return compared(lambda: other, lambda: own, judge)()

    return find


def control_rows() -> dict[str, list[dict[str, Any]]]:
    """Rows of `benchmarks.control` under the paper's protocol, each with a cell for every seed.

    Policies with an offset head are not the paper's and not among them.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in read_results("control").get("cells", {}).values():
        row = cell["row"].removesuffix(", no offset")
        is_papers = row in CONTROL_ROWS and not cell.get("offset_layers", 0)
        if cell["rule"] == PAPERS_RULE and is_papers:
            found.setdefault(row, []).append(cell)
    return found


def controlled(row: str, budget: int | None = None) -> Acting | None:
    """A row of `benchmarks.control` under the paper's protocol, over all of its seeds."""
    cells = control_rows().get(row, [])
    found = [_at(cell, budget) for cell in cells]
    at_budget = [each["success"] for each in found if each is not None]
    if not cells or len(at_budget) < len(cells):
        return None
    how = f"temperature {control_temperature(cells[0]):g}"
    steps = cells[0]["steps"], how, "control", cells[0]["tokenizer_steps"] or 0
    return Acting(pooled(at_budget), *steps, len(cells))


def control_temperature(cell: Mapping[str, Any]) -> float:
    """The temperature of a cell; those that do not say it took the likeliest tokens."""
    return float(cell.get("temperature", 0.0))


def _at(cell: Mapping[str, Any], budget: int | None) -> Mapping[str, Any] | None:
    """The results of a cell at a budget, or with all tokens."""
    fixed = {b["budget"]: b for b in cell["budgets"] if b["budget"] != "auto"}
    return fixed.get(max(fixed) if budget is None else budget)


def _paired(row: str, judge: Judge, budget: int | None) -> Found:
    """The same from the light table, on the same episodes."""
    schemes = over_seeds(read_results(TABLE).get("state", {}))
    own, others = schemes.get(OWN, []), schemes.get(row, [])
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
    return judged(ours, [_trained(each) for each in (*own, *others)], (low, high), judge)


def _trained(row: Mapping[str, Any]) -> Acting:
    """How a row of the light table was trained."""
    return Acting({}, row["steps"], "", TABLE, row["tokenizer_steps"])


def _temperature(row: Mapping[str, Any]) -> str:
    return f"{row['protocol']['sampling']['temperature']:g}"


def swept(table: str, first: str, second: str, judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the ablations in closed loop, over all seeds."""

    def acting(name: str) -> Acting | None:
        return _evaluated("policy_sweep", read_results("policy_sweep").get(table, {}), name)

    return compared(lambda: acting(first), lambda: acting(second), judge)


def on_robosuite(row: str, judge: Judge, budget: int | None = None) -> Callable[[], Found]:
    """A function that compares `oat` at 8 tokens with another row, on RoboMimic's tasks."""

    def acting(name: str, at: int | None = None) -> Acting | None:
        return _evaluated("policy_robosuite", read_results("policy_robosuite"), name, at)

    return compared(lambda: acting(row, budget), lambda: acting(OWN), judge)


def _evaluated(
    source: str, rows: Mapping[str, Any], name: str, budget: int | None = None
) -> Acting | None:
    """A scheme of a closed-loop benchmark at a budget, or with all tokens, over all seeds."""
    own = over_seeds(rows).get(name, [])
    found = [_at(row, budget) for row in own]
    rates = [each["success"] for each in found if each is not None]
    if not own or len(rates) < len(own):
        return None
    how = f"temperature {_temperature(own[0])}"
    steps = own[0]["steps"], how, source, own[0]["tokenizer_steps"]
    return Acting(pooled(rates), *steps, len(own))


CALLS: Mapping[str, Callable[[int, int], int]] = {
    "bin": lambda tokens, horizon: horizon,
    "quest": lambda tokens, horizon: tokens,
    "acodec": lambda tokens, horizon: 1,
    "oat": lambda tokens, horizon: tokens,
    "oat-pow2": lambda tokens, horizon: 1 + math.ceil(math.log2(tokens)),
}
"""Calls for so many tokens of a chunk of so many actions, as the paper lists them."""


def calls_of_schemes() -> Found:
    """Whether policies took as many calls for a chunk as the paper lists."""
    rows = read_results(TABLE).get("state", {})
    found = {
        kind: [(b["budget"], b["calls"]) for b in rows[kind]["budgets"] if b["budget"] != "auto"]
        for kind in CALLS
        if kind in rows
    }
    if not found:
        return NOT_MEASURED
    is_listed = all(
        calls == CALLS[kind](tokens, rows[kind]["protocol"]["horizon"])
        for kind, each in found.items()
        for tokens, calls in each
    )
    shown = "; ".join(f"`{kind}` {_calls(each)}" for kind, each in found.items())
    return Found(shown, AGREES if is_listed else DIFFERS, TABLE)


def _calls(each: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{calls:g} for {budget}" for budget, calls in each)
