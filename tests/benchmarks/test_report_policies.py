"""The sections on policies."""

from __future__ import annotations

import pytest

from benchmarks.report_policies import average_ranks, difference, rate


def test_ranks_are_the_papers() -> None:
    """The paper's lightweight table gives its column of average ranks."""
    table = {
        "bin": (14.4, 39.5, 14.5, 27.7, 4, 8),
        "fast": (23.0, 24.0, 7.1, 13.2, 8, 6),
        "quest": (48.2, 66.9, 17.9, 52.3, 11, 8),
        "oat1": (11.7, 50.8, 11.3, 47.7, 7, 3),
        "oat2": (39.8, 52.5, 16.4, 50.3, 11, 9),
        "oat4": (46.4, 65.3, 19.5, 51.7, 13, 12),
        "oat8": (56.3, 73.1, 24.4, 54.6, 16, 16),
    }
    schemes = [dict(zip("abcdef", row, strict=True)) for row in table.values()]
    ranks = average_ranks(schemes)
    assert ranks == pytest.approx([5.75, 37 / 6, 17 / 6, 6.0, 3.75, 2.5, 1.0], abs=1e-9)


def test_rates_and_differences_are_in_percent() -> None:
    assert rate({"rate": 0.5, "low": 0.4, "high": 0.601}) == "50.0 (40 - 60)"
    pair = {"difference": -0.05, "low": -0.1, "high": 0.0, "p_value": 0.25}
    assert difference(pair) == "-5.0 (-10 to +0), p 0.25"
    assert difference(None) == ""
