"""The page of an evaluation, from records made by hand."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

from oatkit.commands.policy_eval import render_evaluation
from oatkit.measure.reports.evaluation_findings import sentences
from oatkit.measure.reports.evaluation_report import evaluation_page
from oatkit.storage.records import record_from_json
from oatkit.types import Budget, EpisodeVideo, PolicyEvaluation
from tests.measure.reports.pages import Page
from tests.measure.reports.records import evaluation, flow_evaluation

SOLVED: dict[Budget, list[bool]] = {1: [True, False], 8: [True, True], "auto": [True, True]}


def test_the_page_stands_alone_with_its_videos(tmp_path: Path) -> None:
    made = evaluation(SOLVED, tasks=("near", "far"))
    (tmp_path / "v.mp4").write_bytes(b"film")
    films = (EpisodeVideo("near", 1, 1, "v.mp4"), EpisodeVideo("near", "auto", 0, "v.mp4"))
    text = evaluation_page(PolicyEvaluation(**{**vars(made), "videos": films}), tmp_path)
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
    text = evaluation_page(evaluation({8: [True]}), tmp_path)
    assert "The robot at work" not in text
    assert "Pair by pair" not in text


def test_the_same_page_comes_from_the_record_as_json(tmp_path: Path) -> None:
    made = evaluation(SOLVED, tasks=("near", "far"))
    read = record_from_json(PolicyEvaluation, json.loads(json.dumps(asdict(made))))
    assert evaluation_page(read, tmp_path) == evaluation_page(made, tmp_path)


def test_the_page_says_first_what_then_how(tmp_path: Path) -> None:
    made = replace(evaluation({1: [True, False], 8: [True, True]}), command="oatkit policy eval p")
    text = evaluation_page(made, tmp_path)
    order = ["In short</h2>", "<svg", "<figcaption><b>Most is solved with 8 tokens: 100%", "<table"]
    order += ["How this was made</h2>", "<code>oatkit policy eval p</code>", "<td>seed</td>"]
    assert sorted(order, key=text.index) == order


def test_a_flow_expert_has_no_budget(tmp_path: Path) -> None:
    found = flow_evaluation([True] * 9 + [False])
    (tmp_path / "v.mp4").write_bytes(b"film")
    found = replace(found, videos=(EpisodeVideo("a", 8, 0, "v.mp4"),))
    assert sentences(found)[0].startswith("With its flow expert the policy solves 9 of 10")
    page = evaluation_page(found, tmp_path)
    assert "acting by its flow expert" in page
    assert "8 tokens" not in page
    words = re.sub(r"<(style|svg).*?</\1>", "", page, flags=re.DOTALL)
    assert "budget" not in words
    assert "flow expert" in render_evaluation(found).plain
    assert "oat-pow2" not in render_evaluation(found).plain
