"""The charts of sample chunks that are decoded from growing prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np

from oatkit.measure.reports.chart import INK, Chart, new_figure, styled
from oatkit.measure.reports.comparison_findings import share_left, trained
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.measure.reports.report_words import count_tokens
from oatkit.types import KindComparison, Reconstruction, TokenizerComparison

MAX_DIMENSIONS = 3
"""Maximum number of action dimensions that are shown of a chunk: those that move most."""
GAP = 3.5
"""Distance between the dimensions of a chunk, in standard deviations."""
CAPTION = (
    "A row is a held-out chunk, a column a budget. Colored: decoded; thin: the truth. From left to "
    "right the color should settle on the truth. Each dimension is in its own standard deviations, "
    f"at most {MAX_DIMENSIONS} that move most are shown."
)


def plot_prefixes(comparison: TokenizerComparison) -> list[Chart]:
    """A chart for each kind that decodes prefixes."""
    return [plot_kind(comparison, kind) for kind in comparison.kinds if kind.reconstructions]


@styled
def plot_kind(comparison: TokenizerComparison, kind: KindComparison) -> Chart:
    """The sample chunks as one kind decodes them, against the truth."""
    budgets = sorted({r.budget for r in kind.reconstructions})
    count = len(comparison.samples)
    figure, grid = new_figure(
        9.5, 0.5 + 1.6 * count, count, len(budgets), sharex=True, sharey="row"
    )
    color = STYLES[kind.measurement.kind][0]
    for r in kind.reconstructions:
        _plot_chunk(grid[r.sample][budgets.index(r.budget)], comparison, r, color)
    for axes, budget in zip(grid[0], budgets, strict=True):
        axes.set_title(count_tokens(budget))
    for axes in grid[-1]:
        axes.set_xlabel("step")
    name = f"prefixes-{kind.measurement.kind}"
    return Chart(figure, name, see=_see(comparison, kind), caption=CAPTION)


def _plot_chunk(
    axes: Any, comparison: TokenizerComparison, reconstruction: Reconstruction, color: str
) -> None:
    # one scale for all: each dimension in its own standard deviations, one above another
    scale_A = np.maximum(comparison.std, 1e-12)
    truth_TA = np.array(comparison.samples[reconstruction.sample]) / scale_A
    found_TA = np.array(reconstruction.actions) / scale_A
    most = sorted(np.argsort(-np.ptp(truth_TA, axis=0))[:MAX_DIMENSIONS])
    for place, dim in enumerate(most):
        shift = -truth_TA[:, dim].mean() - GAP * place
        axes.plot(truth_TA[:, dim] + shift, color=INK, linewidth=1)
        axes.plot(found_TA[:, dim] + shift, color=color)
    axes.set_yticks([-GAP * place for place in range(len(most))])
    axes.set_yticklabels([comparison.dimensions[dim] for dim in most])
    axes.tick_params(length=0)


def _see(comparison: TokenizerComparison, kind: KindComparison) -> str:
    rows = trained(kind)
    first, last = rows[0], rows[-1]
    return (
        f"{kind.measurement.kind} leaves {share_left(comparison, first.mse)} % of the variance "
        f"with {count_tokens(first.tokens)} and {share_left(comparison, last.mse)} % with "
        f"{last.tokens:.3g}."
    )
