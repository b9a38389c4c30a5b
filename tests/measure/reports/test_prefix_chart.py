"""The charts of sample chunks."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.prefix_chart import MAX_DIMENSIONS, plot_prefixes
from oatkit.types import Reconstruction
from tests.measure.reports.records import comparison, kind, ordered_kind


def test_only_kinds_that_decode_prefixes_have_a_chart() -> None:
    ordered = ordered_kind("klt", (1.0, 0.5, 0.1))
    (chart,) = plot_prefixes(comparison(ordered, kind("bin", {8: 0.1})))
    assert chart.name == "prefixes-klt"
    assert chart.see == "klt leaves 50 % of the variance with 1 token and 10 % with 2."
    for text in ("1 token", "2 tokens", "x", "y"):
        assert f">{text}<" in chart.svg


def test_the_dimensions_that_move_most_are_shown() -> None:
    ordered = ordered_kind("klt", (1.0, 0.5))
    names = tuple("abcde")
    sample = tuple((0.0, 1.0 * t, 2.0 * t, 3.0 * t, 4.0 * t) for t in range(3))
    ordered = replace(ordered, reconstructions=(Reconstruction(0, 1, sample),))
    changes = {"dimensions": names, "std": (1.0, 1.0, 1.0, 1.0, 100.0), "samples": (sample,)}
    (chart,) = plot_prefixes(comparison(ordered, **changes))
    shown = [name for name in names if f">{name}<" in chart.svg]
    assert shown == ["b", "c", "d"]  # e moves little for its standard deviation
    assert len(shown) == MAX_DIMENSIONS
