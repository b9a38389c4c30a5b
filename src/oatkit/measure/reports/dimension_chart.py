"""The chart of the errors of each action dimension."""

from __future__ import annotations

import numpy as np

from oatkit.measure.reports.chart import Chart, kind_legend, new_figure, styled
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.types import TokenizerComparison

CAPTION = "With all tokens. A dimension far to the right of the others is the one that suffers."


@styled
def plot_dimensions(comparison: TokenizerComparison) -> list[Chart]:
    """Error of each action dimension with all tokens, in standard deviations of that dimension."""
    count = len(comparison.dimensions)
    figure, ((axes,),) = new_figure(9.5, 1.3 + 0.32 * count)
    mae_KA = np.array([kind.measurement.budgets[-1].mae for kind in comparison.kinds])
    relative_KA = np.maximum(mae_KA, 1e-12) / np.maximum(comparison.std, 1e-12)
    for kind, relative_A in zip(comparison.kinds, relative_KA, strict=True):
        name = kind.measurement.kind
        color, marker = STYLES[name]
        axes.plot(relative_A, np.arange(count), marker, color=color, markersize=7, label=name)
    axes.set(xscale="log", xlabel="mean absolute error / standard deviation")
    axes.set_yticks(range(count), comparison.dimensions)
    axes.set_ylim(count - 0.5, -0.5)
    kind_legend(figure, len(comparison.kinds))
    worst = comparison.dimensions[int(np.log(relative_KA).mean(axis=0).argmax())]
    see = f"Over all kinds, {worst} has the largest error for how much it moves."
    return [Chart(figure, "dimensions", see=see, caption=CAPTION)]
