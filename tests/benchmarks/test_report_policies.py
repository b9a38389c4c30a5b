"""The sections on policies."""

from __future__ import annotations

from benchmarks.report_policies import difference, rate


def test_rates_and_differences_are_in_percent() -> None:
    assert rate({"rate": 0.5, "low": 0.4, "high": 0.601}) == "50.0 (40 - 60)"
    pair = {"difference": -0.05, "low": -0.1, "high": 0.0, "p_value": 0.25}
    assert difference(pair) == "-5.0 (-10 to +0), p 0.25"
    assert difference(None) == ""
