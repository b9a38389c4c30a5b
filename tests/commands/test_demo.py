"""`oatkit demo` on the smallest scale, as a user runs it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from oatkit import cli
from oatkit.commands.demo import busy_note
from oatkit.measure.reports import demo_report
from oatkit.storage.records import read_record
from oatkit.types import DemoRecord, PolicyEvaluation, TokenizerComparison
from tests.jobs.tiny_demo import TINY
from tests.measure.reports.pages import Page


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    monkeypatch.setattr("oatkit.commands.demo.plan_for", lambda *_: TINY)
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    # drawn and tested elsewhere
    monkeypatch.setattr(
        "oatkit.measure.reports.comparison_report.write_comparison_report", lambda *_: []
    )


def read_parts(out: Path) -> tuple[TokenizerComparison, PolicyEvaluation]:
    """What the page tells of, as it is on disk."""
    return (
        read_record(out / "compared/comparison.json", TokenizerComparison),
        read_record(out / "eval/evaluation.json", PolicyEvaluation),
    )


def check_half_chunks(evaluation: PolicyEvaluation) -> None:
    """The paper's protocol stands beside what the demo does."""
    (half,) = evaluation.others
    assert (half.settings["execute"], evaluation.settings["execute"]) == (16, 4)
    assert evaluation.comparisons[-1].first.endswith("policy (16 of 32 steps executed) at 2")


def read(out: Path) -> DemoRecord:
    return read_record(out / "demo.json", DemoRecord)


@pytest.mark.usefixtures("_tiny")
def test_the_whole_story_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert cli.main(["demo", "--out", str(out)]) == 0
    assert f"open {out / 'report.html'} in a browser" in capsys.readouterr().out
    record = read(out)
    assert [stage.name for stage in record.stages] == list(demo_report.STAGES)
    assert all(stage.is_done and stage.seconds > 0 for stage in record.stages)
    assert record.num_episodes == 5

    text = (out / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert {a for a in page.addresses if not a.startswith("#")} == {"compared/report.html"}
    assert re.findall("<h2>(.*?)</h2>", text) == [
        *("In short", "Success against time", "Success by task"),
        *(
            "Error against tokens and bits",
            "A chunk token by token",
            "Prefix lab",
            "In numbers",
            "How this was made",
        ),
        "What to try next",
    ]
    assert text == demo_report.demo_page(record, *read_parts(out), out)
    assert text.count("<svg") == 4

    weights = (out / "policy/model.safetensors").stat().st_mtime_ns
    assert cli.main(["demo", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "trained before" in shown
    assert "compared before" in shown
    assert "3 episodes were finished before" in shown
    assert (out / "policy/model.safetensors").stat().st_mtime_ns == weights
    assert read(out) == record

    for stage, before in (
        ("demonstrations", "is already finished"),
        ("tokenizers", "compared before"),
        ("half chunks", "1 episodes were finished before"),
        ("simulator", "3 episodes were finished before"),
    ):
        (command,) = (s.command for s in record.stages if s.name == stage)
        assert cli.main(shlex.split(command)[1:]) == 0
        captured = capsys.readouterr()
        assert before in captured.out + captured.err, "the recorded command does the same"

    check_half_chunks(read_parts(out)[1])
    assert cli.main(["demo", "--out", str(out), "--minutes", "7"]) == 2
    assert "made with another --minutes (was 10.0, now 7.0)" in capsys.readouterr().err


@pytest.mark.usefixtures("_tiny")
def test_a_stopped_stage_goes_on_and_its_time_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo"

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("stopped; the same command again continues")

    monkeypatch.setattr("oatkit.jobs.demo_run.make_metaworld", stopped)
    assert cli.main(["demo", "--out", str(out)]) == 130
    assert cli.main(["demo", "--out", str(out)]) == 130
    (stage,) = read(out).stages
    assert not stage.is_done
    assert stage.seconds > 0


def test_too_few_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--minutes", "1"]) == 2
    assert "minutes is 1, expected 6 or more" in capsys.readouterr().err


def test_a_busy_machine_is_told_beforehand() -> None:
    assert busy_note(0.3, 2) == []
    (said,) = busy_note(12.0, 2)
    assert said.startswith("this machine is busy (load 12.0 on 2 cores), so it takes longer")
