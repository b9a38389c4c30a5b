"""Steps that fit into a time: read off the later half of a short trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oatkit.jobs import step_planning
from oatkit.jobs.step_planning import TRIAL_STEPS, steps_within
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
