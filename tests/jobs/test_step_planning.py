"""Steps, and chunks to fit to, that a time holds: read off a short trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oatkit.jobs import step_planning
from oatkit.jobs.step_planning import (
    TRIAL_CHUNKS,
    TRIAL_LOGGED,
    TRIAL_STEPS,
    chunks_within,
    fitting_seconds,
    planned_steps,
    steps_within,
)
from oatkit.train import TrainConfig
from tests.train.regression import CONFIG, Regression


def test_steps_follow_from_the_usual_speed_of_the_later_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[TrainConfig] = []
    folders: list[Path] = []

    def trial(job: Any, config: TrainConfig, out: Path, **_: Any) -> None:
        asked.append(config)
        folders.append(out)

    speeds = {10: 1.0, 12: 160.0, 14: 150.0, 16: 170.0, 18: 160.0, 20: 2.0}  # a moment of nothing
    rows = [{"step": step, "samples_per_s": speed} for step, speed in speeds.items()]
    monkeypatch.setattr(step_planning, "train", trial)
    monkeypatch.setattr(step_planning, "read_log", lambda _: rows)
    assert steps_within(Regression(), CONFIG, minutes=2.0) == 2 * 60 * 160 / CONFIG.batch_size
    assert (asked[0].steps, asked[0].log_every) == (TRIAL_STEPS, TRIAL_LOGGED)
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


class Fitting:
    """Fits for a hundredth of a second a chunk, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fitted: list[int] = []

    def __call__(self, num_chunks: int) -> None:
        self.fitted.append(num_chunks)
        self.now += 0.01 * num_chunks


@pytest.fixture
def fitting(monkeypatch: pytest.MonkeyPatch) -> Fitting:
    found = Fitting()
    monkeypatch.setattr(step_planning.time, "perf_counter", lambda: found.now)
    return found


@given(num_chunks=st.integers(1, 10**6), minutes=st.floats(1e-3, 1e3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_chunks_are_as_many_as_the_time_holds(
    fitting: Fitting, num_chunks: int, minutes: float
) -> None:
    began = fitting.now
    found = chunks_within(fitting, num_chunks, minutes)
    spent = fitting.now - began
    assert min(num_chunks, TRIAL_CHUNKS) <= found <= num_chunks
    if found > TRIAL_CHUNKS:
        assert spent + 0.01 * found <= 60 * minutes + 1e-6, "the trial counts"
    if TRIAL_CHUNKS < found < num_chunks:
        assert spent + 0.01 * (found + 2) > 60 * minutes


def test_the_time_of_fitting_grows_with_the_chunks(fitting: Fitting) -> None:
    assert fitting_seconds(fitting, 10 * TRIAL_CHUNKS) == pytest.approx(0.1 * TRIAL_CHUNKS)
    assert fitting_seconds(fitting, 10) == pytest.approx(0.1)
    assert fitting.fitted == [TRIAL_CHUNKS, 10]
    with pytest.raises(ValueError, match="--minutes is -1, expected more than 0"):
        chunks_within(fitting, 10, -1)
