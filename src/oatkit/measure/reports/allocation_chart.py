"""The chart of what each token adds, beside how often training keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np

from oatkit.measure.reports.chart import Chart, integer_axis, new_figure, styled
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.types import Allocation, TokenizerComparison

RISES = "#d23b3b"
CAPTION = (
    "Top: what each token takes off the error when it joins those before it, on a log axis; "
    "hatched where the error rises instead, which an ordered kind may do only between trained "
    "budgets. Bottom: how often training keeps the token. Tokens of one budget interval share a "
    "weight."
)


@styled
def plot_allocation(comparison: TokenizerComparison) -> list[Chart]:
    """Gains and survival weights of every kind that decodes prefixes."""
    kinds = {k.measurement.kind: k.allocation for k in comparison.kinds if k.allocation is not None}
    if not kinds:
        return []
    figure, grid = new_figure(
        9.5, 4.2, 2, len(kinds), sharex="col", sharey="row", height_ratios=(2, 1)
    )
    for (name, found), gains, weights in zip(kinds.items(), grid[0], grid[1], strict=True):
        color = STYLES[name][0]
        _plot_gains(gains, found, color)
        gains.set_title(name)
        weights.step(range(1, len(found.gains) + 1), found.survival, where="mid", color=color)
        weights.set(xlabel="token i", ylim=(0, 1.05))
        integer_axis(weights)
    grid[0][0].set_ylabel("marginal gain $\\Delta_i$")
    grid[1][0].set_ylabel("$w_i = \\Pr(K \\geq i)$")
    return [Chart(figure, "allocation", see=_see(kinds), caption=CAPTION)]


def _plot_gains(axes: Any, found: Allocation, color: str) -> None:
    gains_K = np.array(found.gains)
    token_K = np.arange(1, len(gains_K) + 1)
    is_gain_K = gains_K > 0
    axes.bar(token_K[is_gain_K], gains_K[is_gain_K], 0.8, color=color)
    if not is_gain_K.all():
        axes.bar(
            *(token_K[~is_gain_K], np.maximum(-gains_K[~is_gain_K], 1e-12), 0.8),
            fill=False,
            edgecolor=RISES,
            hatch="////",
            label="the error rises",
        )
        axes.legend()
    axes.set_yscale("log")


def _see(kinds: dict[str, Allocation]) -> str:
    shares = []
    for name, found in kinds.items():
        total = found.errors[0] - found.errors[-1]
        if total > 0:
            shares.append(f"{name} {found.gains[0] / total:.0%}")
    if not shares:
        return "No kind has a smaller error with all of its tokens than with none."
    return f"The first token takes off, of what all tokens take off: {', '.join(shares)}."
