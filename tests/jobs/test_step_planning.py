"""Steps that fit into a time: read off the later half of a short trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oatkit.jobs import step_planning
from oatkit.jobs.step_planning import TRIAL_STEPS, planned_steps, steps_within
from oatkit.train import TrainConfig
from tests.train.regression import CONFIG, Regression


def test_steps_follow_from_the_speed_of_the_later_half(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TrainConfig] = []
    folders: list[Path] = []

    def trial(job: Any, config: TrainConfig, out: Path, **_: Any) -> None:
        asked.append(config)
        folders.append(out)

    rows = [{"step": 10, "samples_per_s": 1.0}, {"step": 20, "samples_per_s": 160.0}]
    monkeypatch.setattr(step_planning, "train", trial)
    monkeypatch.setattr(step_planning, "read_log", lambda _: rows)
    assert steps_within(Regression(), CONFIG, minutes=2.0) == 2 * 60 * 160 / CONFIG.batch_size
    assert (asked[0].steps, asked[0].log_every) == (TRIAL_STEPS, TRIAL_STEPS // 2)
    assert not folders[0].exists()


def test_there_is_always_a_step() -> None:
    assert steps_within(Regression(), CONFIG, minutes=1e-9) == 1


def test_minutes_are_counted_once(tmp_path: Path) -> None:
    counts = iter([7, 9])

    def count() -> int:
        return next(counts)

    assert planned_steps(2.0, {"batch_size": 3}, tmp_path / "run", count) == 7
    assert planned_steps(2.0, None, tmp_path / "run", count) == 7, "a stopped run goes on"
    assert planned_steps(3.0, None, tmp_path / "run", count) == 9
    assert planned_steps(2.0, None, None, lambda: 5) == 5


def test_minutes_that_make_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="minutes is 0, expected more than 0"):
        planned_steps(0, None, None, lambda: 1)
    with pytest.raises(ValueError, match="give --steps or --minutes, not both"):
        planned_steps(1, {"steps": 5}, None, lambda: 1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="--minutes is for one process"):
        planned_steps(1, None, None, lambda: 1)
