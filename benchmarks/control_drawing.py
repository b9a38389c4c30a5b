"""The drawing of success against milliseconds, with every policy that was measured both ways."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.closed_loop import pooled
from benchmarks.record import read_results
from benchmarks.svg import dot, line, svg, text
from oatkit.types import SuccessRate

RULE, NEIGHBOR_RULE = "8", "8 steps"
"""Policies look again after eight steps."""
NAMES = {
    **{name: name for name in ("oat", "oat-pow2", "quest", "acodec", "klt")},
    **{name: name for name in ("fast, relaxed, 2500 steps", "bin, 1000 steps")},
    "light-flow": "flow head, 2500 steps",
    "act": "ACT",
    "diffusion": "Diffusion Policy",
}
"""Policies of `control`, `neighbors` and `control_times` to what the drawing calls them; those on
tokens have 10,000 steps where they say none."""
UNTIMED = "they were not timed"
VARIANT = "they are variants of policies that are drawn"
OURS = ("oat", "oat-pow2")
LEFT, TOP, WIDTH, HEIGHT = 60, 30, 640, 420


@dataclass(frozen=True)
class Point:
    """A policy with one of its budgets."""

    budget: str
    ms: float
    success: SuccessRate


def success_and_time() -> str:
    """Success where policies look again after eight steps, against the time of a query."""
    curves, elsewhere = measured(), estimated(read_results("control_times"))
    points = [point for curve in curves.values() for point in curve]
    low_ms, high_ms = (math.log(f(p.ms for p in points)) for f in (min, max))
    low = 10 * math.floor(10 * min(p.success.low for p in points))

    def at(ms: float, rate: float) -> tuple[float, float]:
        across = (math.log(ms) - low_ms) / max(high_ms - low_ms, 1e-9)
        return LEFT + 20 + across * (WIDTH - 40), TOP + HEIGHT * (100 - 100 * rate) / (100 - low)

    parts = [text(10, 18, "episodes solved, %", style="soft small")]
    for percent in range(low, 101, 10):
        y = at(points[0].ms, percent / 100)[1]
        parts.append(line([(LEFT, y), (LEFT + WIDTH, y)], "grid"))
        parts.append(text(LEFT - 8, y + 4, str(percent), style="small", anchor="end"))
    for ms in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500):
        if low_ms <= math.log(ms) <= high_ms:
            x = at(ms, 1)[0]
            parts.append(text(x, TOP + HEIGHT + 20, f"{ms} ms", style="small", anchor="middle"))
    for name, curve in curves.items():
        style = name if name in OURS else "other"
        parts.append(line([at(p.ms, p.success.rate) for p in curve], f"curve {style}"))
        for point in curve:
            ends = [at(point.ms, rate) for rate in (point.success.low, point.success.high)]
            parts.append(line(ends, f"interval {style}"))
            x, y = at(point.ms, point.success.rate)
            parts.append(dot(x, y, style))
            if point.budget != "whole":
                parts.append(text(x + 4, y - 8, point.budget, style="soft small"))
        if name in OURS:  # they lie close together and are told apart by color
            x, y = LEFT + WIDTH / 2 + 24 + 120 * OURS.index(name), 14
            parts.append(line([(x - 24, y), (x, y)], f"curve {style}"))
        else:
            x, y = at(curve[-1].ms, curve[-1].success.rate)
        called = f"{NAMES[name]} (ms estimated)" if name in elsewhere else NAMES[name]
        parts.append(text(x + 8, y + 4, called, style="small strong"))
    words = "time of a query, one thread (log)"
    parts.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, words, style="soft small"))
    described = "Success against the milliseconds of a query, of every policy and budget."
    return svg(860, TOP + HEIGHT + 50, described, parts)


def comparable_ms(timed: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Policy to the milliseconds of its budgets in the run of `oat`, measured there or estimated.

    Args:
        timed: Results of `control_times`. What was timed in another run counts as many times as
            much as `oat` with all tokens took in its own run over what it took there: an estimate,
            right where whatever made the difference slowed both policies by the same factor.
    """
    reference_ms = timed["oat"]["reference_ms"]
    return {
        name: {b: ms * reference_ms / row["reference_ms"] for b, ms in row["ms"].items()}
        for name, row in timed.items()
    }


def estimated(timed: dict[str, Any]) -> list[str]:
    """Policies that were not timed in the run of `oat`."""
    own_ms = timed["oat"]["reference_ms"]
    return [name for name, row in timed.items() if row["reference_ms"] != own_ms]


def measured() -> dict[str, list[Point]]:
    """Policy to its budgets, the fastest first; seeds count together."""
    times = comparable_ms(read_results("control_times"))
    curves: dict[str, list[Point]] = {}
    for (name, budget), rates in _acted().items():
        ms = times.get(name, {}).get(budget)
        if name in NAMES and ms is not None:
            together = SuccessRate(**pooled(rates))
            curves.setdefault(name, []).append(Point(budget, ms, together))
    return {name: sorted(curve, key=lambda p: p.ms) for name, curve in curves.items()}


def left_out() -> dict[str, list[str]]:
    """Why policies that acted are not drawn, to their names."""
    drawn = measured()
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for name, _ in _acted()):
        if name not in drawn:
            found.setdefault(UNTIMED if name in NAMES else VARIANT, []).append(name)
    return found


def _acted() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Policy and budget to the success of every seed."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in read_results("control")["cells"].values():
        if cell["rule"] == RULE:
            for budget in cell["budgets"]:
                key = cell["row"], str(budget["budget"])
                found.setdefault(key, []).append(budget["success"])
    for row in read_results("neighbors")["rows"].values():
        found.setdefault((row["kind"], "whole"), []).append(row["rules"][NEIGHBOR_RULE]["success"])
    return found
