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
    FITTED,
    NOT_MEASURED,
    UNSURE,
    Acting,
    Found,
    Judge,
    Recipe,
    compared,
    difference,
    is_larger,
    judged,
    pooled_difference,
    trend,
)
from benchmarks.closed_loop import comparison, fixed_budgets, over_seeds, pooled, solved_by_seed
from benchmarks.record import read_result, read_results
from oatkit.types import budget_name

PAPERS_RULE = "half"
"""How the paper executes chunks, by the name that `benchmarks.control` has for it."""
TABLE = "policy_table"
OWN = "oat"
CONTROL_ROWS = ("oat", "oat-pow2", "quest", "acodec", "fast", "bin", "oat, no nesting")
"""Rows of `benchmarks.control` that are the paper's, or ablations of those."""
NO_OFFSET = ", no offset"
"""What the name of a row of `benchmarks.control` without an offset head ends with."""
WITH_LEVELS = ("oat", "oat-pow2", "quest")
"""Kinds that have FSQ levels."""


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
            return _tabled(row, judge, budget)
        return compared(lambda: other, lambda: own, judge)()

    return find


def control_rows() -> dict[str, list[dict[str, Any]]]:
    """Rows of `benchmarks.control` under the paper's protocol by their names there, each with a
    cell for every seed.

    Policies with an offset head are not the paper's and not among them.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in read_results("control").get("cells", {}).values():
        is_papers = papers_row(cell["row"]) in CONTROL_ROWS and not cell.get("offset_layers", 0)
        if cell["rule"] == PAPERS_RULE and is_papers:
            found.setdefault(cell["row"], []).append(cell)
    return found


def papers_row(name: str) -> str:
    """The paper's name of a row of `benchmarks.control`, which says so where it has no offset."""
    return name.removesuffix(NO_OFFSET)


def controlled(row: str, budget: int | None = None) -> Acting | None:
    """A row of `benchmarks.control` under the paper's protocol, over all of its seeds."""
    rows = control_rows()
    cells = rows.get(f"{row}{NO_OFFSET}") or rows.get(row, [])
    found = [_at(cell, budget) for cell in cells]
    at_budget = [each for each in found if each is not None]
    if not cells or len(at_budget) < len(cells):
        return None
    how = f"temperature {control_temperature(cells[0]):g}"
    recipes = tuple(
        light_recipe(cell, control_temperature(cell), each)
        for cell, each in zip(cells, at_budget, strict=True)
    )
    return Acting(pooled([each["success"] for each in at_budget]), how, "control", recipes)


def control_levels(cell: Mapping[str, Any]) -> list[int]:
    """FSQ levels of a cell's tokenizer; those that do not say them had those of all."""
    levels: list[int] = read_result("control")["settings"].get("light", {}).get("levels", [])
    return list(cell.get("levels", levels if cell["kind"] in WITH_LEVELS else []))


def control_temperature(cell: Mapping[str, Any]) -> float:
    """The temperature of a cell; those that do not say it took the likeliest tokens."""
    return float(cell.get("temperature", 0.0))


def light_recipe(
    row: Mapping[str, Any], temperature: float, found: Mapping[str, Any] | None = None
) -> Recipe:
    """How a light policy was trained and evaluated.

    Args:
        row: Row or cell of a result.
        temperature: Sampling temperature.
        found: Results of a budget, where the mix of tasks matters.
    """
    recipe = {
        "steps": row["steps"],
        FITTED: row["tokenizer_steps"] or None,
        "batch size": row.get("batch_size"),
        "frames": row.get("history"),
        "code smoothing": row.get("code_smoothing"),
        "offset layers": row.get("offset_layers"),
        "temperature": temperature,
    }
    return recipe if found is None else {**recipe, "tasks": _mix(found)}


def _mix(found: Mapping[str, Any]) -> str | None:
    """The shares of tasks in the episodes of a budget, in words."""
    counts = {task["task"]: task["success"]["episodes"] for task in found.get("tasks", ())}
    total = sum(counts.values())
    shares = (f"{100 * count / total:.0f} % {task}" for task, count in sorted(counts.items()))
    return ", ".join(shares) or None


def _at(cell: Mapping[str, Any], budget: int | None) -> Mapping[str, Any] | None:
    """The results of a cell at a budget, or with all tokens."""
    fixed = {b["budget"]: b for b in fixed_budgets(cell)}
    return fixed.get(max(fixed) if budget is None else budget)


def at_all_tokens(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The results of a row or cell at its largest budget."""
    return max(fixed_budgets(row), key=lambda budget: int(budget["budget"]))


def _tabled(row: str, judge: Judge, budget: int | None) -> Found:
    """The same from the light table, on the same episodes where that is known."""
    schemes = over_seeds(read_results(TABLE).get("state", {}))
    own, others = schemes.get(OWN, []), schemes.get(row, [])
    if not others:
        return NOT_MEASURED
    asked = others[0]["budgets"][-1]["budget"] if budget is None else budget
    pair = comparison(others, budget_name(asked))
    if pair is None:
        return compared(lambda: tabled(row, budget), lambda: tabled(OWN), judge)()
    low, high = -pair["high"], -pair["low"]
    points = round(-100 * pair["difference"], 1) + 0.0  # -0.0 is +0.0
    ours = (
        f"{points:+.1f} points ({100 * low:+.0f} to {100 * high:+.0f}), "
        f"the same {pair['episodes']} episodes, temperature {_temperature(others[0]):g}"
    )
    if pair.get("seeds", 1) > 1:
        ours += f", {pair['seeds']} seeds"
    recipes = [light_recipe(each, _temperature(each)) for each in (*own, *others)]
    return judged(ours, TABLE, recipes, (low, high), judge)


def _temperature(row: Mapping[str, Any]) -> float:
    return float(row["protocol"]["sampling"]["temperature"])


def swept(table: str, first: str, second: str, judge: Judge) -> Callable[[], Found]:
    """A function that compares two rows of the ablations in closed loop, over all seeds."""
    return compared(lambda: _swept(table, first), lambda: _swept(table, second), judge)


def swept_trend(table: str, pairs: Sequence[tuple[str, str]]) -> Callable[[], Found]:
    """A function that says whether the second of two rows of an ablation succeeds more often, for
    all pairs of them that were measured."""
    return trend(
        lambda: {
            f"`{one}` and `{other}`": (_swept(table, one), _swept(table, other))
            for one, other in pairs
        }
    )


def _swept(table: str, name: str) -> Acting | None:
    return _evaluated("policy_sweep", read_results("policy_sweep").get(table, {}), name)


def on_robosuite(row: str, judge: Judge, budget: int | None = None) -> Callable[[], Found]:
    """A function that compares `oat` at 8 tokens with another row, on RoboMimic's tasks.

    Budgets of `oat` itself are compared pair by pair: not all have as many episodes of a task.
    """

    def acting(name: str) -> Acting | None:
        return _evaluated("policy_robosuite", read_results("policy_robosuite"), name)

    if row == OWN and budget is not None:
        return lambda: _than_fewer("policy_robosuite", OWN, budget, judge)
    return compared(lambda: acting(row), lambda: acting(OWN), judge)


def _than_fewer(source: str, name: str, budget: int, judge: Judge) -> Found:
    """A scheme with all tokens and at a smaller budget, on the episodes that both have."""
    rows = over_seeds(read_results(source)).get(name, [])
    pairs = [
        pair for row in rows for pair in row["against_largest"] if pair["first"] == str(budget)
    ]
    if not rows or len(pairs) < len(rows):
        return NOT_MEASURED
    change, low, high = pooled_difference(pairs)
    ours = (
        f"{100 * change:+.0f} points ({100 * low:+.0f} to {100 * high:+.0f}), "
        f"{sum(pair['episodes'] for pair in pairs)} episodes that both have, seeds: {len(rows)}, "
        f"temperature {_temperature(rows[0]):g}"
    )
    recipes = [light_recipe(row, _temperature(row)) for row in rows]
    return judged(ours, source, recipes, (low, high), judge)


def than_shortest(row: str, judge: Judge) -> Callable[[], Found]:
    """A function that compares a row with `oat` at 1 token, in MetaWorld."""

    def find() -> Found:
        found = _of_one_source((OWN, 1), (row, None))
        return compared(lambda: found[0], lambda: found[1], judge)() if found else NOT_MEASURED

    return find


def tabled(row: str, budget: int | None = None) -> Acting | None:
    """A row of the light table from state, over all of its seeds."""
    return _evaluated(TABLE, read_results(TABLE).get("state", {}), row, budget)


def _of_one_source(*wanted: tuple[str, int | None]) -> list[Acting]:
    """Rows at budgets, all of `benchmarks.control` or else all of the light table: policies of the
    two differ in more than their tokens. Empty where neither has all of them."""
    for look_up in (controlled, tabled):
        found = [one for row, budget in wanted if (one := look_up(row, budget)) is not None]
        if len(found) == len(wanted):
            return found
    return []


def nearer_than_all(row: str, budgets: Sequence[int]) -> Callable[[], Found]:
    """A function that says whether a row succeeds about as often as `oat` at one of some budgets,
    rather than at all tokens: whether it lies on that side of the middle between the two.

    Args:
        row: Name of the row.
        budgets: Budgets of `oat`, of which one is enough.
    """

    def find() -> Found:
        found = _of_one_source((row, None), (OWN, None), *((OWN, budget) for budget in budgets))
        if not found:
            return NOT_MEASURED
        other, own, *short = found
        statuses = [_is_nearer(other.success, each.success, own.success) for each in short]
        status = next((s for s in (AGREES, UNSURE) if s in statuses), DIFFERS)
        shown = zip((*budgets, "all"), (*short, own), strict=True)
        rates = ", ".join(f"{100 * each.success['rate']:.0f} at {name}" for name, each in shown)
        ours = f"{100 * other.success['rate']:.0f} %, and {rates}, {own.how}"
        recipes = (*own.recipes, *other.recipes, *(r for each in short for r in each.recipes))
        return judged(ours, own.source, recipes, (0.0, 0.0), lambda low, high: status)

    return find


def _is_nearer(one: Mapping[str, Any], near: Mapping[str, Any], far: Mapping[str, Any]) -> str:
    """Whether a rate is nearer to the first of two others, if those two can be told apart.

    The ends of the middle less the rate are joined as those of independent estimates (MOVER).
    """
    _, low, high = difference(near, far)
    if low <= 0 <= high:
        return UNSURE
    change = (near["rate"] + far["rate"]) / 2 - one["rate"]
    down = math.hypot(
        *((rate["rate"] - rate["low"]) / 2 for rate in (near, far)), one["high"] - one["rate"]
    )
    up = math.hypot(
        *((rate["high"] - rate["rate"]) / 2 for rate in (near, far)), one["rate"] - one["low"]
    )
    ends = (change - down, change + up) if low > 0 else (-change - up, -change + down)
    return is_larger(*ends)


def _evaluated(
    source: str, rows: Mapping[str, Any], name: str, budget: int | None = None
) -> Acting | None:
    """A scheme of a closed-loop benchmark at a budget, or with all tokens, over all seeds."""
    own = over_seeds(rows).get(name, [])
    found = [_at(row, budget) for row in own]
    at_budget = [each for each in found if each is not None]
    if not own or len(at_budget) < len(own):
        return None
    recipes = tuple(
        light_recipe(row, _temperature(row), each) for row, each in zip(own, at_budget, strict=True)
    )
    how = f"temperature {_temperature(own[0]):g}"
    return Acting(
        pooled([each["success"] for each in at_budget]),
        how,
        source,
        recipes,
        solved_by_seed(own, at_budget[0]["budget"]),
    )
