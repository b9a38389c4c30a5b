"""`oatkit demo` on the smallest scale, as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from oatkit import cli
from oatkit.errors import MissingExtraError
from oatkit.jobs import demo_run as demo
from oatkit.jobs.demo_run import MIN_MINUTES, STAGES, Plan, plan_for
from oatkit.measure.reports import demo_report
from oatkit.storage.records import record_from_json
from oatkit.types import DemoRecord, PolicyEvaluation, TokenizerComparison
from tests.measure.reports.pages import Page

TINY = Plan(
    demonstrations=5,
    tokenizer_minutes=0.01,
    policy_until=0.0,
    policy_minutes=0.03,
    episodes=1,
    tasks=("drawer-close",),
    kinds=("oat-pow2", "bin"),
    videos=0,
    budgets=(1, 2, "auto"),
    preset="tiny",
)


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    monkeypatch.setattr(demo, "plan_for", lambda _: TINY)
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    # drawn and tested elsewhere
    monkeypatch.setattr(
        "oatkit.measure.reports.comparison_report.write_comparison_report", lambda *_: []
    )


def read_parts(out: Path) -> tuple[TokenizerComparison, PolicyEvaluation]:
    """What the page tells of, as it is on disk."""
    compared = json.loads((out / "compared/comparison.json").read_text())
    evaluated = json.loads((out / "eval/evaluation.json").read_text())
    return (
        record_from_json(TokenizerComparison, compared),
        record_from_json(PolicyEvaluation, evaluated),
    )


def read(out: Path) -> DemoRecord:
    return record_from_json(DemoRecord, json.loads((out / "demo.json").read_text()))


@pytest.mark.usefixtures("_tiny")
def test_the_whole_story_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert cli.main(["demo", "--out", str(out)]) == 0
    assert f"open {out / 'report.html'} in a browser" in capsys.readouterr().out
    record = read(out)
    assert [stage.name for stage in record.stages] == list(STAGES)
    assert all(stage.is_done and stage.seconds > 0 for stage in record.stages)
    assert (record.num_episodes, record.policy_steps > 0) == (5, True)

    text = (out / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert {a for a in page.addresses if not a.startswith("#")} == {"compared/report.html"}
    assert re.findall("<h2>(.*?)</h2>", text) == [
        *("In short", "Success", "Time of a query", "Error against tokens and bits"),
        *("A chunk token by token", "Prefix lab", "In numbers", "How this was made"),
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

    assert cli.main(["demo", "--out", str(out), "--minutes", "7"]) == 2
    assert "made with another minutes (was 10.0, now 7.0)" in capsys.readouterr().err


@pytest.mark.usefixtures("_tiny")
def test_a_stopped_stage_goes_on_and_its_time_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo"

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("stopped; the same command again continues")

    monkeypatch.setattr(demo, "make_metaworld", stopped)
    assert cli.main(["demo", "--out", str(out)]) == 130
    assert cli.main(["demo", "--out", str(out)]) == 130
    (stage,) = read(out).stages
    assert not stage.is_done
    assert stage.seconds > 0


def test_the_plan_grows_with_the_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    short, long = plan_for(MIN_MINUTES), plan_for(20)
    for name in ("demonstrations", "tokenizer_minutes", "policy_until", "episodes"):
        assert getattr(short, name) < getattr(long, name)
    assert len(short.tasks) == len(long.tasks)
    assert cli.main(["demo", "--minutes", "1"]) == 2
    assert "minutes is 1, expected 4 or more" in capsys.readouterr().err
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"minutes is {wrong}"):
            plan_for(wrong)


def test_a_missing_simulator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGES", ("no-such-package",))
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[metaworld\]'"):
        demo.run_demo(demo.Demo(out=tmp_path / "d"), Console(quiet=True))
    assert not (tmp_path / "d").exists()
