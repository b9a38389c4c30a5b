"""What the report of an evaluation says, from records made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from oatkit.commands.policy_eval import render_evaluation
from oatkit.evaluation.success_statistics import compare_paired, summarize
from oatkit.measure.reports.evaluation_report import cautions, render, sentences, success
from oatkit.storage.records import record_from_json
from oatkit.types import EpisodeResult, EpisodeVideo, PolicyEvaluation
from tests.measure.pages import Page

SETTINGS = {"env": "plane", "execute": 8, "horizon": 16, "seed": 0}


def episodes(budget: int | None, solved: Sequence[bool], task: str) -> list[EpisodeResult]:
    tokens = 3.0 if budget is None else float(budget)
    return [
        EpisodeResult(
            task=task,
            budget=budget,
            episode=number,
            seed=2 * number + 1,
            is_success=is_success,
            score=None,
            steps=50,
            queries=4,
            calls=2.0,
            tokens=tokens,
            latency_ms=3.0,
            clipped=0.1,
            repeats=0,
            error=None,
        )
        for number, is_success in enumerate(solved)
    ]


def record(solved: dict[int | None, list[bool]], tasks: Sequence[str] = ("a",)) -> PolicyEvaluation:
    found = {k: [e for t in tasks for e in episodes(k, own, t)] for k, own in solved.items()}
    largest = max(k for k in found if k is not None)
    pairs = [
        compare_paired("auto" if k is None else str(k), str(largest), own, found[largest])
        for k, own in found.items()
        if k != largest
    ]
    return PolicyEvaluation(
        policy="out/policy",
        kind="oat-pow2",
        settings=SETTINGS,
        versions={"torch": "1"},
        episodes=tuple(e for own in found.values() for e in own),
        budgets=tuple(summarize(k, own, latency_ms=2.5) for k, own in found.items()),
        comparisons=tuple(pair for pair in pairs if pair is not None),
    )


def test_success_is_told_with_its_interval_and_by_task() -> None:
    said = sentences(record({8: [True] * 9 + [False]}, tasks=("near", "far")))
    assert said[0] == (
        "With 8 tokens the policy solves 18 of 20 episodes: 90%, 95 % interval 70% to 97%."
    )
    assert said[1] == "By task, with 8 tokens: near 90%, far 90%."
    assert said[-1] == "From observation to chunk, one observation at a time: 2.5 ms with 8 tokens."


def test_a_flow_expert_has_no_budget() -> None:
    found = record({8: [True] * 9 + [False]})
    found = replace(found, settings=SETTINGS | {"head": "flow"})
    assert sentences(found)[0].startswith("With its flow expert the policy solves 9 of 10")
    page = render(found, Path())
    assert "acting by its flow expert" in page
    assert "8 tokens" not in page
    assert "flow expert" in render_evaluation(found).plain
    assert "oat-pow2" not in render_evaluation(found).plain


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
    said = sentences(record({1: first, 8: last}))
    assert told in " ".join(said)


def test_cautions() -> None:
    few = cautions(record({8: [False]}))
    assert few[0].startswith("1 episode of a task and budget, where the paper has 50")
    assert few[1].startswith("No episode was solved")
    assert cautions(record({8: [True] * 50})) == []


def test_the_caption_names_the_best_budget_if_there_is_one() -> None:
    assert "Most is solved with 8 tokens: 50%" in success(
        record({1: [False] * 2, 8: [True, False]})
    )
    assert "No budget solves an episode." in success(record({1: [False] * 2, 8: [False] * 2}))


def test_the_page_stands_alone_with_its_videos(tmp_path: Path) -> None:
    made = record({1: [True, False], 8: [True, True], None: [True, True]}, tasks=("near", "far"))
    (tmp_path / "v.mp4").write_bytes(b"film")
    films = (EpisodeVideo("near", 1, 1, "v.mp4"), EpisodeVideo("near", None, 0, "v.mp4"))
    text = render(PolicyEvaluation(**{**vars(made), "videos": films}), tmp_path)
    page = Page(text)
    assert page.open == []
    assert [a for a in page.addresses if not a.startswith(("#", "data:video/mp4;base64,"))] == []
    assert page.addresses.count("data:video/mp4;base64,ZmlsbQ==") == 2
    auto, one = text.index("budget auto: "), text.index("budget 1: ")
    assert auto < one  # episode 0 before episode 1
    assert 'budget 1: <span class="no">not solved</span> in 50 steps' in text
    assert text.count("<svg") == 2
    assert "<td>8 against auto</td>" in text


def test_without_videos_or_pairs_there_are_no_such_sections(tmp_path: Path) -> None:
    text = render(record({8: [True]}), tmp_path)
    assert "The robot at work" not in text
    assert "Pair by pair" not in text


def test_the_same_page_comes_from_the_record_as_json(tmp_path: Path) -> None:
    made = record({1: [True, False], 8: [True, True], None: [True, True]}, tasks=("near", "far"))
    read = record_from_json(PolicyEvaluation, json.loads(json.dumps(asdict(made))))
    assert render(read, tmp_path) == render(made, tmp_path)


def test_the_page_says_first_what_then_how(tmp_path: Path) -> None:
    made = replace(record({1: [True, False], 8: [True, True]}), command="oatkit policy eval p")
    text = render(made, tmp_path)
    order = ["In short</h2>", "<svg", "<figcaption><b>Most is solved with 8 tokens: 100%", "<table"]
    order += ["How this was made</h2>", "<code>oatkit policy eval p</code>", "<td>seed</td>"]
    assert sorted(order, key=text.index) == order
