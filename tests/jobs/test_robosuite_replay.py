"""Recordings move with what they belong to, and solve their task from other start poses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.robosuite import Robosuite, StateView
from oatkit.envs.robosuite_experts import about_vertical
from oatkit.envs.simulator import demonstration_seed
from oatkit.errors import DatasetError
from oatkit.jobs.robosuite_recordings import Recording
from oatkit.jobs.robosuite_replay import Frame, plan_path, recorded_expert
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.robosuite_files import write_recording

angles = st.floats(-3, 3)


@given(angles, angles, st.sampled_from([1, 4]))
def test_the_least_turn_leads_to_a_like_side(old: float, new: float, folds: int) -> None:
    origin = np.zeros(3)
    turn = Frame(origin, old).turn_to(Frame(origin, new), folds)
    share = 2 * np.pi / folds
    assert abs(turn) <= share / 2 + 1e-9
    rest = (old + turn - new) / share
    assert rest == pytest.approx(round(rest), abs=1e-6)
    assert Frame(origin, old).turn_to(Frame(origin, new), 0) == 0


def state_of(hand: np.ndarray, body: np.ndarray, body_turn: np.ndarray) -> np.ndarray:
    down = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])

    def pose(at: np.ndarray, turn: np.ndarray) -> list[float]:
        return [*at, *turn[:, 0], *turn[:, 1]]

    goal = pose(np.zeros(3), np.eye(3))
    parts = [*pose(hand, down), 0.04, -0.04, *pose(body, body_turn), *goal, 0, 0]
    return np.array(parts, np.float32)


@given(angles, st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
def test_a_path_keeps_its_place_beside_what_is_grasped(turn: float, x: float, y: float) -> None:
    """Seen from the cube, up to a quarter of a turn, the path is the recorded one."""
    body = np.array([0.0, 0.0, 0.82])
    way = np.linspace([0.1, 0.05, 0.2], [0, 0, 0], 30)
    states = np.stack([state_of(body + step, body, np.eye(3)) for step in way])
    recording = Recording(states, np.arange(30) >= 25)
    moved_body = body + np.array([x, y, 0])
    start = StateView.of(state_of(np.zeros(3), moved_body, about_vertical(turn)))
    _, path = plan_path("lift", recording, start)
    np.testing.assert_allclose(path[-1].at, moved_body, atol=1e-5)
    first = path[0].at - moved_body
    assert np.linalg.norm(first) == pytest.approx(np.linalg.norm(way[0]), abs=1e-5)
    assert first[2] == pytest.approx(0.2, abs=1e-5)
    assert [point.fingers for point in path] == sorted(point.fingers for point in path)


def test_a_recording_without_a_grasp_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = np.array([0.0, 0.0, 0.82])
    states = np.stack([state_of(body, body, np.eye(3))] * 5)
    nothing = Recording(states, np.zeros(5, bool))
    monkeypatch.setattr("oatkit.jobs.robosuite_replay.read_recordings", lambda *_: (nothing,))
    with pytest.raises(DatasetError, match="no demonstration in which anything is taken"):
        recorded_expert(tmp_path / "d.hdf5", "lift")


def test_a_recording_solves_its_task_from_another_start(tmp_path: Path) -> None:
    skip_without_robosuite()
    path, environment = write_recording(tmp_path / "d.hdf5", "lift"), Robosuite("lift")
    solved = 0
    for attempt in range(3):
        expert = recorded_expert(path, "lift")
        observation = environment.reset(demonstration_seed(0, attempt))
        for _ in range(150):
            result = environment.step(expert(observation[ENVIRONMENT_STATE]))
            observation = result.observation
            if result.is_success:
                solved += 1
                break
    assert solved >= 2
    environment.close()
