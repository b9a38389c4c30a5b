"""The chart of how evenly each token slot uses the vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from oatkit.measure.reports.chart import Chart, kind_legend, log2_axis, new_figure, styled
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.types import TokenizerComparison

MAX_MARKS = 32
"""Maximum number of points with marks; a curve with more is thin and has none."""
CAPTION = (
    "Perplexity: how many equally likely ids would carry as much as the ids of a slot do. A slot "
    "near 1 says almost nothing."
)


@styled
def plot_vocabulary(comparison: TokenizerComparison) -> list[Chart]:
    """Perplexity of the ids in each slot."""
    figure, ((axes,),) = new_figure(9.5, 3.4)
    for kind in comparison.kinds:
        color, marker = STYLES[kind.measurement.kind]
        y = [slot.perplexity for slot in kind.measurement.slots]
        looks: dict[str, Any] = {"marker": marker, "markersize": 4}
        if len(y) > MAX_MARKS:
            looks = {"linewidth": 0.8, "alpha": 0.7}
        x = np.arange(1, len(y) + 1)
        axes.plot(x, y, color=color, label=kind.measurement.kind, **looks)
    axes.set(yscale="log", xlabel="token slot", ylabel="perplexity of its ids")
    log2_axis(axes)
    kind_legend(figure, len(comparison.kinds))
    return [Chart(figure, "vocabulary", see=_see(comparison), caption=CAPTION)]


def _see(comparison: TokenizerComparison) -> str:
    used = {
        k.measurement.kind: np.median([s.perplexity for s in k.measurement.slots])
        / k.measurement.vocab_size
        for k in comparison.kinds
    }
    most, least = max(used, key=lambda k: used[k]), min(used, key=lambda k: used[k])
    return (
        f"{most} uses its vocabulary most evenly, {least} least: the ids of a slot are worth "
        f"{used[most]:.0%} and {used[least]:.0%} of what there is."
    )
