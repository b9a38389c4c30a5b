"""The chart of what a policy makes of the tokens of each kind."""

from __future__ import annotations

from oatkit.measure.reports.chart import Chart, kind_legend, log2_axis, new_figure, styled
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.measure.reports.probe_findings import (
    policy_sentence,
    probe_baselines,
    probed_budgets,
)
from oatkit.types import TokenizerComparison

BASELINE = "#8d939c"
CAPTION = (
    "Lower is better. The error of chunks that a small policy generated itself on held-out "
    "episodes, one curve a kind, all trained for the same number of steps. Dashed: what needs no "
    "network."
)


@styled
def plot_probe(comparison: TokenizerComparison) -> list[Chart]:
    """Error of the policy's own chunks against tokens; nothing where no policy was trained."""
    see = policy_sentence(comparison)
    if see is None:
        return []
    figure, ((axes,),) = new_figure(7.0, 4.2)
    rows = [row for row in probed_budgets(comparison) if row.mse < float("inf")]
    for kind in dict.fromkeys(row.kind for row in rows):
        own = [row for row in rows if row.kind == kind]
        color, marker = STYLES[kind]
        x, y = [row.found.tokens for row in own], [row.mse for row in own]
        axes.plot(x, y, color=color, marker=marker, label=kind)
    for baseline in probe_baselines(comparison):
        axes.axhline(baseline.mse, color=BASELINE, linestyle="--", linewidth=1.1)
        axes.annotate(
            baseline.name,
            (1, baseline.mse),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=BASELINE,
        )
    axes.set(xscale="log", yscale="log", xlabel="tokens a chunk")
    axes.set_ylabel("held-out mean squared error, raw units")
    log2_axis(axes)
    kind_legend(figure, len(axes.get_legend_handles_labels()[1]))
    return [Chart(figure, "policies", see=see, caption=CAPTION)]
