"""The chart of what each token adds."""

from __future__ import annotations

from oatkit.measure.reports.allocation_chart import plot_allocation
from tests.measure.reports.records import comparison, kind, ordered_kind


def test_the_sentence_gives_the_share_of_the_first_token() -> None:
    found = comparison(ordered_kind("klt", (1.0, 0.4, 0.2)), kind("bin", {8: 0.1}))
    (chart,) = plot_allocation(found)
    assert chart.see == "The first token takes off, of what all tokens take off: klt 75%."
    assert "the error rises" not in chart.svg


def test_tokens_that_raise_the_error_are_marked() -> None:
    (chart,) = plot_allocation(comparison(ordered_kind("oat", (1.0, 0.4, 0.6))))
    assert ">the error rises<" in chart.svg


def test_tokens_that_take_off_nothing_have_no_share() -> None:
    (chart,) = plot_allocation(comparison(ordered_kind("oat", (1.0, 1.0))))
    assert chart.see == "No kind has a smaller error with all of its tokens than with none."


def test_without_prefixes_there_is_no_chart() -> None:
    assert plot_allocation(comparison(kind("bin", {8: 0.1}))) == []
