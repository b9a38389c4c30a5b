"""Charts of a comparison, and what all charts share. The only file that imports matplotlib.

Every chart is drawn twice: as SVG for the page, where ink and grid take the page's colors so that
it reads on light and dark, and as PNG on white.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from oatkit.errors import MissingExtraError
from oatkit.tokenizers import KINDS
from oatkit.types import KindComparison, TokenizerComparison

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise MissingExtraError("report") from error

INK, GRID = "#31343a", "#d9dce2"
"""Replaced by the page's own colors in SVG, so no series may have them."""
MARKERS = dict(zip(KINDS, cycle("osX^vPD"), strict=False))
STYLES = {name: (kind.color, MARKERS[name]) for name, kind in KINDS.items()}
"""Color and marker of each kind."""
REFERENCE = "#8d939c"
WRONG = "#d23b3b"
MAX_DIMENSIONS = 3
"""Dimensions drawn of a sample chunk: those that move most."""
MAX_MARKS = 32
"""A curve with more points is drawn thin and without marks."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
}

styled = matplotlib.rc_context(SETTINGS)
"""Decorates whatever draws."""


class Chart:
    """A drawn figure; `svg` for a page, `png` for a file."""

    def __init__(self, figure: Figure, name: str) -> None:
        self._figure, self._name = figure, name
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once is enough

    @property
    def png(self) -> bytes:
        file = io.BytesIO()
        with matplotlib.rc_context(SETTINGS):
            self._figure.savefig(file, format="png", dpi=150, facecolor="white")
        return file.getvalue()

    @property
    def svg(self) -> str:
        """Without any address, and with the page's colors."""
        file = io.StringIO()
        with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": self._name}):
            self._figure.savefig(file, format="svg", transparent=True)
        text = file.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
        text = re.sub(r' id="[A-Za-z0-9]+_\d+"', "", text)  # figure_1, axes_1: the same in all
        text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text)
        text = text.replace("'DejaVu Sans'", "var(--sans)")
        return text.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")


@styled
def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Any:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


@styled
def rate_distortion(comparison: TokenizerComparison) -> Chart:
    """Error against tokens and against bits, both on log axes."""
    figure, ((by_tokens, by_bits),) = new_figure(9.5, 4.2, columns=2, sharey=True)
    smallest = min(b.mse for k in comparison.kinds for b in k.measurement.budgets)
    for axes, rate in ((by_tokens, "tokens"), (by_bits, "bits")):
        for kind in comparison.kinds:
            _rate_distortion_curve(axes, kind, rate)
        _reference(axes, comparison, rate)
        axes.set(xscale="log", yscale="log", xlabel=f"{rate} a chunk")
    _powers_of_two(by_tokens)
    by_tokens.set_ylabel("held-out mean squared error, raw units")
    by_tokens.set_ylim(bottom=max(smallest, 1e-12) / 3)
    handles, labels = by_bits.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return Chart(figure, "rate_distortion")


def _rate_distortion_curve(axes: Any, kind: KindComparison, rate: str) -> None:
    m = kind.measurement
    color, marker = STYLES[m.kind]
    rows = [b for b in m.budgets if b.tokens > 0]
    x, y = [getattr(b, rate) for b in rows], [max(b.mse, 1e-12) for b in rows]
    marked = [i for i, b in enumerate(rows) if b.is_trained]
    # oat-pow2 tracks oat so closely that it would hide it
    sizes = {"linewidth": 3, "markersize": 8} if m.kind == "oat" else {}
    axes.plot(x, y, color=color, marker=marker, markevery=marked, label=m.kind, **sizes)


def _reference(axes: Any, comparison: TokenizerComparison, rate: str) -> None:
    """The Gaussian reference at every measured budget; one curve only where bits are the rate."""
    curves = [[b for b in k.measurement.budgets if b.tokens > 0] for k in comparison.kinds]
    if rate == "bits":
        curves = [sorted((b for curve in curves for b in curve), key=lambda b: b.bits)]
    label = "Gaussian reference"
    for rows in curves:
        x, y = [getattr(b, rate) for b in rows], [max(b.gaussian_mse, 1e-30) for b in rows]
        marked = [i for i, b in enumerate(rows) if b.is_trained]
        axes.plot(
            *(x, y, "--"),
            color=REFERENCE,
            linewidth=1.1,
            marker="_",
            markersize=6,
            markevery=marked,
            label=label,
        )
        label = ""


@styled
def prefixes(comparison: TokenizerComparison, kind: KindComparison) -> Chart:
    """Sample chunks decoded from growing prefixes, against the truth."""
    budgets = sorted({r.budget for r in kind.reconstructions})
    count = len(comparison.samples)
    figure, grid = new_figure(
        9.5, 0.5 + 1.6 * count, count, len(budgets), sharex=True, sharey="row"
    )
    color = STYLES[kind.measurement.kind][0]
    for r in kind.reconstructions:
        axes = grid[r.sample][budgets.index(r.budget)]
        truth_TA, found_TA = np.array(comparison.samples[r.sample]), np.array(r.actions)
        # one scale for all: each dimension in its own standard deviations, one above another
        scale_A = np.maximum(comparison.std, 1e-12)
        most = np.argsort(-np.ptp(truth_TA / scale_A, axis=0))[:MAX_DIMENSIONS]
        for place, dim in enumerate(sorted(most)):
            shift = -truth_TA[:, dim].mean() / scale_A[dim] - 3.5 * place
            axes.plot(truth_TA[:, dim] / scale_A[dim] + shift, color=INK, linewidth=1)
            axes.plot(found_TA[:, dim] / scale_A[dim] + shift, color=color)
        axes.set_yticks([-3.5 * place for place in range(len(most))])
        axes.set_yticklabels([comparison.dimensions[dim] for dim in sorted(most)])
        axes.tick_params(length=0)
    for axes, budget in zip(grid[0], budgets, strict=True):
        axes.set_title(f"{budget} token{'s' * (budget > 1)}")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    return Chart(figure, f"prefixes-{kind.measurement.kind}")


@styled
def allocation(kinds: Sequence[KindComparison]) -> Chart:
    """What each token takes off the error, and how often training keeps it."""
    figure, grid = new_figure(
        9.5, 4.2, 2, len(kinds), sharex="col", sharey="row", height_ratios=(2, 1)
    )
    for kind, gains, weights in zip(kinds, grid[0], grid[1], strict=True):
        found = kind.allocation
        assert found is not None
        gains_K = np.array(found.gains)
        token_K = np.arange(1, len(gains_K) + 1)
        color = STYLES[kind.measurement.kind][0]
        is_gain_K = gains_K > 0
        gains.bar(token_K[is_gain_K], gains_K[is_gain_K], 0.8, color=color)
        if not is_gain_K.all():
            gains.bar(
                *(token_K[~is_gain_K], np.maximum(-gains_K[~is_gain_K], 1e-12), 0.8),
                fill=False,
                edgecolor=WRONG,
                hatch="////",
                label="the error rises",
            )
            gains.legend()
        gains.set_yscale("log")
        gains.set_title(kind.measurement.kind)
        weights.step(token_K, found.survival, where="mid", color=color)
        weights.set(xlabel="token i", ylim=(0, 1.05))
        weights.xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[0][0].set_ylabel("marginal gain $\\Delta_i$")
    grid[1][0].set_ylabel("$w_i = \\Pr(K \\geq i)$")
    return Chart(figure, "allocation")


@styled
def dimensions(comparison: TokenizerComparison) -> Chart:
    """Error of each action dimension with all tokens, in standard deviations of that dimension."""
    count = len(comparison.dimensions)
    figure, ((axes,),) = new_figure(9.5, 1.3 + 0.32 * count)
    for kind in comparison.kinds:
        color, marker = STYLES[kind.measurement.kind]
        mae_A = np.array(kind.measurement.budgets[-1].mae)
        relative_A = np.maximum(mae_A, 1e-12) / np.maximum(comparison.std, 1e-12)
        axes.plot(
            *(relative_A, np.arange(count), marker),
            color=color,
            markersize=7,
            label=kind.measurement.kind,
        )
    axes.set(xscale="log", xlabel="mean absolute error / standard deviation")
    axes.set_yticks(range(count), comparison.dimensions)
    axes.set_ylim(count - 0.5, -0.5)
    figure.legend(loc="outside lower center", ncols=len(comparison.kinds))
    return Chart(figure, "dimensions")


@styled
def vocabulary(comparison: TokenizerComparison) -> Chart:
    """How many equally likely ids each slot's entropy is worth."""
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
    _powers_of_two(axes)
    figure.legend(loc="outside lower center", ncols=len(comparison.kinds))
    return Chart(figure, "vocabulary")


@styled
def training(kinds: Sequence[KindComparison]) -> Chart:
    """The loss of the trained kinds."""
    figure, ((axes,),) = new_figure(9.5, 3.2)
    for kind in kinds:
        x, y = [p.step for p in kind.losses], [p.loss for p in kind.losses]
        color = STYLES[kind.measurement.kind][0]
        axes.plot(x, y, color=color, marker=".", label=kind.measurement.kind)
    axes.set(yscale="log", xlabel="step", ylabel="training loss")
    figure.legend(loc="outside lower center", ncols=len(kinds))
    return Chart(figure, "training")


def _powers_of_two(axes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
