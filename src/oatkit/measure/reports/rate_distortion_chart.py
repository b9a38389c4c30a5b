"""The chart of errors against tokens and bits."""

from __future__ import annotations

from typing import Any

from oatkit.measure.reports.chart import Chart, log2_axis, new_figure, styled
from oatkit.measure.reports.comparison_findings import cheapest_sentence
from oatkit.measure.reports.kind_styles import STYLES
from oatkit.types import BudgetMeasurement, KindComparison, TokenizerComparison

REFERENCE = "#8d939c"
CAPTION = (
    "Lower and further left is better. A curve is one tokenizer cut off after more and more "
    "tokens, marks are its trained budgets; a single mark is a kind that only decodes all of its "
    "tokens together. Dashed: the Gaussian reference at the same bits; it leaves the chart where "
    "it is below every measured error."
)


@styled
def plot_rate_distortion(comparison: TokenizerComparison) -> list[Chart]:
    """Error against tokens and against bits, both on log axes."""
    figure, ((by_tokens, by_bits),) = new_figure(9.5, 4.2, columns=2, sharey=True)
    smallest = min(b.mse for k in comparison.kinds for b in k.measurement.budgets)
    for axes, rate in ((by_tokens, "tokens"), (by_bits, "bits")):
        for kind in comparison.kinds:
            _plot_kind(axes, kind, rate)
        _plot_reference(axes, comparison, rate)
        axes.set(xscale="log", yscale="log", xlabel=f"{rate} a chunk")
    log2_axis(by_tokens)
    by_tokens.set_ylabel("held-out mean squared error, raw units")
    by_tokens.set_ylim(bottom=max(smallest, 1e-12) / 3)
    handles, labels = by_bits.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return [Chart(figure, "rate_distortion", see=cheapest_sentence(comparison), caption=CAPTION)]


def _plot_kind(axes: Any, kind: KindComparison, rate: str) -> None:
    m = kind.measurement
    color, marker = STYLES[m.kind]
    rows = _with_tokens(kind)
    x, y = [getattr(b, rate) for b in rows], [max(b.mse, 1e-12) for b in rows]
    # oat-pow2 tracks oat so closely that it would hide it
    sizes = {"linewidth": 3, "markersize": 8} if m.kind == "oat" else {}
    axes.plot(x, y, color=color, marker=marker, markevery=_trained(rows), label=m.kind, **sizes)


def _plot_reference(axes: Any, comparison: TokenizerComparison, rate: str) -> None:
    """The Gaussian reference at every measured budget; one curve only where bits are the rate."""
    curves = [_with_tokens(kind) for kind in comparison.kinds]
    if rate == "bits":
        curves = [sorted((b for curve in curves for b in curve), key=lambda b: b.bits)]
    label = "Gaussian reference"
    for rows in curves:
        x, y = [getattr(b, rate) for b in rows], [max(b.gaussian_mse, 1e-30) for b in rows]
        axes.plot(
            *(x, y, "--"),
            color=REFERENCE,
            linewidth=1.1,
            marker="_",
            markersize=6,
            markevery=_trained(rows),
            label=label,
        )
        label = ""


def _with_tokens(kind: KindComparison) -> list[BudgetMeasurement]:
    """All measured budgets but 0, which a log axis cannot show."""
    return [b for b in kind.measurement.budgets if b.tokens > 0]


def _trained(rows: list[BudgetMeasurement]) -> list[int]:
    """Places of the budgets with direct supervision, which have a mark."""
    return [place for place, b in enumerate(rows) if b.is_trained]
