"""The look of charts: a color for each kind that everybody can tell from the others, SVG, PNG."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from oatkit.measure.reports.chart import (
    GRID,
    INK,
    PLAIN_STYLE,
    Chart,
    integer_axis,
    log2_axis,
    new_figure,
    policy_style,
)
from oatkit.tokenizers import KINDS

SIGHT = {
    "usual": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""What is seen of linear RGB (Machado, Oliveira and Fernandes, 2009)."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)


def linear(color: str) -> NDArray[np.float64]:
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIELAB, in which a distance of 2 is just seen."""
    x, y, z = np.cbrt(XYZ @ np.clip(rgb, 0, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_kinds_are_told_apart_by_color(sight: str) -> None:
    seen = {name: lab(SIGHT[sight] @ linear(kind.color)) for name, kind in KINDS.items()}
    near = {
        pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(seen, 2)
    }
    assert min(near.values()) > 15, min(near, key=lambda pair: near[pair])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paper", ["#ffffff", "#15171b"])
def test_colors_are_readable_on_light_and_dark(kind: str, paper: str) -> None:
    low, high = sorted(float(XYZ[1] @ linear(c)) for c in (KINDS[kind].color, paper))
    assert (high + 0.05) / (low + 0.05) > 2.6


def test_a_policy_has_the_style_of_its_kind_where_that_is_known() -> None:
    assert policy_style("oat")[0] == KINDS["oat"].color
    assert policy_style("openpi") == PLAIN_STYLE
    assert PLAIN_STYLE[0] not in {kind.color for kind in KINDS.values()}


def test_svg_has_the_colors_of_the_page_and_no_address() -> None:
    figure, ((axes,),) = new_figure(3, 2)
    axes.plot([1, 2], [3, 4], color="#123456")
    chart = Chart(figure, "line", see="A line.", caption="It rises.")
    assert "#123456" in chart.svg
    assert "var(--ink)" in chart.svg
    assert "var(--grid)" in chart.svg
    assert not re.search(rf"http|xmlns|{INK}|{GRID}", chart.svg)
    assert chart.svg == chart.svg
    assert chart.png.startswith(b"\x89PNG")


@pytest.mark.parametrize("color", [kind.color for kind in KINDS.values()])
def test_no_kind_has_a_color_that_the_page_replaces(color: str) -> None:
    assert color.lower() not in (INK, GRID)


def test_axes_are_labeled_with_whole_numbers() -> None:
    figure, ((powers, counts),) = new_figure(6, 2, columns=2)
    powers.plot([1, 16], [0, 1])
    counts.plot([1, 3], [0, 1])
    log2_axis(powers)
    integer_axis(counts)
    figure.draw_without_rendering()
    assert "16" in [label.get_text() for label in powers.get_xticklabels()]
    assert all(x == round(x) for x in counts.get_xticks())
