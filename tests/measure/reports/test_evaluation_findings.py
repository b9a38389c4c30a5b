"""The words of an evaluation, from records made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.measure.reports.evaluation_findings import cautions, sentences
from tests.measure.reports.records import evaluation


def test_success_is_told_with_its_interval_and_by_task() -> None:
    said = sentences(evaluation({8: [True] * 9 + [False]}, tasks=("near", "far")))
    assert said[0] == (
        "With 8 tokens the policy solves 18 of 20 episodes: 90%, 95 % interval 70% to 97%."
    )
    assert said[1] == "By task, with 8 tokens: near 90%, far 90%."
    assert said[-1] == "From observation to chunk, one observation at a time: 2.5 ms with 8 tokens."


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [
        ([False] * 20, [True] * 20, "More tokens help: 8 against 1 is +100 points"),
        ([True] * 20, [False] * 20, "More tokens hurt here: 8 against 1 is -100 points"),
        ([True, False] * 3, [True] * 6, "do not tell the largest budget from the smallest: 8"),
    ],
)
def test_a_trend_is_claimed_only_when_it_is_told_apart(
    first: list[bool], last: list[bool], told: str
) -> None:
    said = sentences(evaluation({1: first, 8: last}))
    assert told in " ".join(said)


def test_cautions() -> None:
    few = cautions(evaluation({8: [False]}))
    assert few[0].startswith("1 episode of a task and budget, where the paper has 50")
    assert few[1].startswith("No episode was solved")
    record = evaluation({8: [True] * 50})
    assert cautions(record) == []
    some = tuple(replace(e, redrawn=e.episode % 2) for e in record.episodes)
    assert cautions(replace(record, episodes=some)) == [
        "25 of 200 queries gave tokens that did not decode and generated again."
    ]
