"""The stages of a demo, and their record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.envs.metaworld import METAWORLD
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.errors import ArtifactError, MissingExtraError
from oatkit.jobs import demo_run
from oatkit.jobs.demo_plan import plan_for
from oatkit.jobs.demo_run import RECORD, DemoRun
from oatkit.measure.reports.demo_report import STAGES
from oatkit.storage.records import read_record
from oatkit.types import DemoRecord
from tests.jobs.tiny_demo import TINY


def test_a_missing_simulator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = replace(METAWORLD, packages=("no-such-package",))
    monkeypatch.setitem(SIMULATORS, "metaworld", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[metaworld\]'"):
        DemoRun(tmp_path / "d", 10.0, plan_for(10.0))
    assert not (tmp_path / "d").exists()


def make_nothing(out: Path, *_: Any, **__: Any) -> None:
    """In place of demonstrations."""
    out.mkdir(exist_ok=True)
    np.savez(out / "0.npz", action=np.zeros((7, 2)), task="tidy up")


def test_stages_are_noted_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    monkeypatch.setattr(demo_run, "make_metaworld", make_nothing)
    seen = []

    def describe(stage: str) -> str:
        seen.append(stage)
        return f"do {stage}"

    demo = DemoRun(tmp_path, 4.0, TINY, describe=describe)
    dataset = demo.make_demonstrations()
    assert (len(dataset), dataset.num_frames) == (1, 7)
    (stage,) = demo.record.stages
    assert (stage.name, stage.command, stage.is_done) == (
        "demonstrations",
        "do demonstrations",
        True,
    )
    assert set(seen) <= set(STAGES)
    assert read_record(tmp_path / RECORD, DemoRecord).stages == demo.record.stages
    again = DemoRun(tmp_path, 4.0, TINY, describe=describe)
    again.make_demonstrations()
    assert again.record.stages == demo.record.stages, "the time of what was done before is kept"
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ArtifactError, match=r"made with another minutes \(was 4.0, now 5.0\)"):
        DemoRun(tmp_path, 5.0, TINY)


def test_a_demo_of_before_is_refused_by_what_differs(tmp_path: Path) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    old = Path(__file__).parents[1] / "storage/records_v1/demo.json"
    assert read_record(old, DemoRecord).settings["policy_steps"] == 400
    (tmp_path / RECORD).write_text(old.read_text())
    with pytest.raises(ArtifactError, match=r"policy_steps \(was 400, now 2000\).*another --out"):
        DemoRun(tmp_path, 10.0, plan_for(10.0))
