"""What is said about a number of the paper."""

from __future__ import annotations

from dataclasses import replace

from oatkit.types import ReproducedNumber

NUMBER = ReproducedNumber("oat", 8, "light-libero", 50.0, 40.0, 60.0, 56.3, 100, 1.0)


def test_the_interval_decides_and_nothing_is_said_without_one() -> None:
    assert NUMBER.verdict == "agrees"
    assert replace(NUMBER, paper=60.1).verdict == "does not"
    assert replace(NUMBER, paper=None).verdict == ""
    assert replace(NUMBER, low=None, high=None).verdict == ""
