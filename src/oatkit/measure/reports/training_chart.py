"""The chart of the losses of the trained kinds."""

from __future__ import annotations

from oatkit.measure.reports.chart import Chart, kind_legend, new_figure, styled
from oatkit.measure.reports.comparison_findings import LATE_FALL, late_fall
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.types import TokenizerComparison

CAPTION = (
    "Training loss, each kind's own (that of the ordered kinds is over all budgets), on a log axis."
)


@styled
def plot_training(comparison: TokenizerComparison) -> list[Chart]:
    """Loss against training steps; no chart where nothing was trained."""
    trained = [kind for kind in comparison.kinds if kind.losses]
    if not trained:
        return []
    figure, ((axes,),) = new_figure(9.5, 3.2)
    for kind in trained:
        x, y = [p.step for p in kind.losses], [p.loss for p in kind.losses]
        color = STYLES[kind.measurement.kind][0]
        axes.plot(x, y, color=color, marker=".", label=kind.measurement.kind)
    axes.set(yscale="log", xlabel="step", ylabel="training loss")
    kind_legend(figure, len(trained))
    falling = [kind.measurement.kind for kind in trained if late_fall(kind) > LATE_FALL]
    see = "No loss falls much at the end."
    if falling:
        see = f"Still falling at the end, so more steps would help: {', '.join(falling)}."
    return [Chart(figure, "training", see=see, caption=CAPTION)]
