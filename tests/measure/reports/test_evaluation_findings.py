"""The words of an evaluation, from records made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.jobs.evaluation_comparison import with_comparisons
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
        ([False] * 20, [True] * 20, ": more tokens help, by +100 points"),
        ([True] * 20, [False] * 20, ": more tokens hurt here, by -100 points"),
        ([False] * 20, [False] * 20, "it solves nothing with either"),
        (
            [True, False] * 3,
            [True] * 6,
            "whether more tokens help is more than these episodes tell, +50 points",
        ),
    ],
)
def test_a_trend_is_claimed_only_when_it_is_told_apart(
    first: list[bool], last: list[bool], told: str
) -> None:
    first_sentence, *_ = sentences(evaluation({1: first, 8: last}))
    assert told in first_sentence


def test_other_policies_are_told_with_the_difference_on_the_same_episodes() -> None:
    half = evaluation({8: [False] * 6}, execute=8)
    record = with_comparisons(evaluation({8: [True] * 6}, execute=4), (half,))
    assert sentences(record)[-1].startswith(
        "out/policy (8 of 16 steps executed) at 8 solves 0%; on the same episodes out/policy (4 of "
        "16 steps executed) at 8 is +100 points from it (+"
    )


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
