"""The page of a demo, from records made by hand."""

from __future__ import annotations

import re
from pathlib import Path

from oatkit.measure.reports.demo_report import STAGES, demo_page, findings, write_demo_report
from oatkit.types import DemoRecord, DemoStage, TokenizerComparison
from tests.measure.reports.pages import Page
from tests.measure.reports.records import comparison, evaluation, kind, ordered_kind

EVALUATION = evaluation({1: [True, False], 2: [True, True], "auto": [True, True]})


def compared() -> TokenizerComparison:
    return comparison(ordered_kind("oat-pow2", (1.0, 0.5, 0.2)), kind("bin", {2: 0.1, 8: 0.01}))


def demo() -> DemoRecord:
    settings = {
        **{"tasks": ["drawer-close"], "kinds": ["oat-pow2", "bin"], "episodes": 2},
        **{"minutes": 10.0, "policy_steps": 1000, "execute": 8},
    }
    stages = tuple(
        DemoStage(name, f"oatkit {name} --kinds oat-pow2 bin", 60.0, True) for name in STAGES
    )
    return DemoRecord(settings, {"torch": "1"}, "a machine", 5, 400, stages)


def test_policy_and_tokenizers_are_told_as_one_story(tmp_path: Path) -> None:
    path = write_demo_report(demo(), compared(), EVALUATION, tmp_path)
    text = path.read_text()
    assert text == demo_page(demo(), compared(), EVALUATION, tmp_path)
    assert Page(text).open == []
    assert "in 5.0 minutes" in text
    assert re.findall("<h2>(.*?)</h2>", text) == [
        *("In short", "Success against time", "Success by task"),
        *(
            "Error against tokens and bits",
            "A chunk token by token",
            "In numbers",
            "How this was made",
            "What to try next",
        ),
    ]
    assert "oatkit tokenizers --kinds oat quest" in text, "how to compare the rest"
    for stage in demo().stages:
        assert stage.command in text
    assert "<td>bin</td><td>8</td><td>80</td><td>1.00e-02</td><td>1 %</td>" in text


def test_the_first_sentence_is_success_and_time_of_one_token_and_of_all() -> None:
    assert findings(compared(), EVALUATION)[0] == (
        "The policy solves 50% in 2.5 ms a query with 1 token and 100% in 2.5 ms a query with 2 "
        "tokens: whether more tokens help is more than these episodes tell, +50 points (-27 to "
        "+91)."
    )


def test_the_best_kind_with_as_many_tokens_is_named() -> None:
    said = findings(compared(), EVALUATION)
    assert said[-2].startswith(
        "Of the variance of the actions, the tokens of oat-pow2 leave unexplained: 50 % with 1, "
        "20 % with 2."
    )
    assert said[-1].startswith("Least of all with at most 2 tokens: bin, 10 % with 2.")
