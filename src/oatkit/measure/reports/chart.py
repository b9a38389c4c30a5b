"""What all charts of reports share: their look, and the way they become SVG and PNG.

Only this file imports matplotlib. In SVG, ink and grid take the colors of the page, so that a chart
can be read on a light and on a dark page; a PNG has a white background.
"""

from __future__ import annotations

import io
import re
from typing import Any

from oatkit.errors import MissingExtraError

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise MissingExtraError("report") from error

INK, GRID = "#31343a", "#d9dce2"
"""Colors that SVG replaces by those of the page, so no curve may have them."""
PLAIN_STYLE = ("#7d8590", "o")
"""Color and marker of a policy whose kind of tokenizer is not known here."""
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
"""Decorator of functions that plot, which gives them the common look."""


class Chart:
    """A chart and the words below it.

    Args:
        figure: The finished figure.
        name: Name of the PNG file, without its suffix.
        see: What to see in the chart, in one sentence.
        caption: How to read the chart.
    """

    def __init__(self, figure: Figure, name: str, *, see: str, caption: str) -> None:
        self.name, self.see, self.caption = name, see, caption
        self._figure = figure
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once is enough

    @property
    def png(self) -> bytes:
        """The chart as a file."""
        file = io.BytesIO()
        with matplotlib.rc_context(SETTINGS):
            self._figure.savefig(file, format="png", dpi=150, facecolor="white")
        return file.getvalue()

    @property
    def svg(self) -> str:
        """The chart as an element of a page: without any address, and in the page's colors."""
        file = io.StringIO()
        with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": self.name}):
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
    """A figure of so many inches, and its grid of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def policy_style(kind: str) -> tuple[str, str]:
    """Color and marker of a policy: those of its kind of tokenizer, as far as kinds are known.

    They are not where a policy elsewhere is evaluated without torch.
    """
    try:
        from oatkit.measure.reports.kind_styles import STYLES
    except ImportError:
        return PLAIN_STYLE
    return STYLES.get(kind, PLAIN_STYLE)


def kind_legend(figure: Any, count: int) -> None:
    """One line below the axes that names all curves."""
    figure.legend(loc="outside lower center", ncols=count)


def log2_axis(axes: Any) -> None:
    """Make the horizontal axis logarithmic, labeled with the numbers 1, 2, 4, ..."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))


def integer_axis(axes: Any) -> None:
    """Label the horizontal axis at whole numbers only."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
