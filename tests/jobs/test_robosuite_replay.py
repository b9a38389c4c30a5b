"""Recordings move with what they belong to, and solve their task from other start poses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.robosuite import Robosuite, StateView
from oatkit.envs.robosuite_experts import (
    BASE,
    CLOSE,
    OPEN,
    START_LINE,
    about_vertical,
    wrapped,
    yaw,
)
from oatkit.envs.simulator import demonstration_seed
from oatkit.errors import DatasetError
from oatkit.jobs.robosuite_recordings import Recording
from oatkit.jobs.robosuite_replay import (
    REACH,
    Follower,
    Frame,
    Point,
    plan_path,
    recorded_expert,
    side_within_reach,
)
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.robosuite_files import write_recording

angles = st.floats(-3, 3)
DOWN = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])
"""A hand whose palm points down."""


@given(angles, angles, st.sampled_from([1, 4]))
def test_the_least_turn_leads_to_a_like_side(old: float, new: float, folds: int) -> None:
    origin = np.zeros(3)
    turn = Frame(origin, old).turn_to(Frame(origin, new), folds)
    share = 2 * np.pi / folds
    assert abs(turn) <= share / 2 + 1e-9
    rest = (old + turn - new) / share
    assert rest == pytest.approx(round(rest), abs=1e-6)
    assert Frame(origin, old).turn_to(Frame(origin, new), 0) == 0


@given(angles, st.floats(0.6, 0.85), angles)
def test_what_is_held_goes_to_a_side_within_reach(
    direction: float, distance: float, turn: float
) -> None:
    """The hand holds it 6 cm off, and turns least of the sides that it can bring it to."""
    at = np.array([*BASE, 0.9]) + np.array([distance, 0.0, 0.0])
    point = Point(at, DOWN, CLOSE, thing=Frame(at, 0.0))
    reach = about_vertical(direction) @ np.array([0.06, 0, 0])

    def is_possible(side: float) -> bool:
        hand = at + about_vertical(side) @ reach
        line = about_vertical(turn + side) @ DOWN[:, 0]
        return bool(np.linalg.norm(hand[:2] - BASE) <= REACH and line @ START_LINE >= 0)

    side = side_within_reach(point, reach, turn, folds=4)
    assert side / (np.pi / 2) == pytest.approx(round(side / (np.pi / 2)))
    sides = [0, np.pi / 2, -np.pi / 2, -np.pi]
    possible = [other for other in sides if is_possible(other)]
    if possible:
        assert is_possible(side)
        least = min(abs(wrapped(turn + other)) for other in possible)
        assert abs(wrapped(turn + side)) <= least + 1e-6
    assert side_within_reach(point, reach, turn, folds=1) == 0


def state_of(hand: np.ndarray, body: np.ndarray, body_turn: np.ndarray) -> np.ndarray:
    def pose(at: np.ndarray, turn: np.ndarray) -> list[float]:
        return [*at, *turn[:, 0], *turn[:, 1]]

    goal = pose(np.zeros(3), np.eye(3))
    parts = [*pose(hand, DOWN), 0.04, -0.04, *pose(body, body_turn), *goal, 0, 0]
    return np.array(parts, np.float32)


VIEW = StateView.of(state_of(np.zeros(3), np.zeros(3), np.eye(3)))


@given(angles, st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
def test_a_path_keeps_its_place_beside_what_is_grasped(turn: float, x: float, y: float) -> None:
    """Seen from the cube, up to a quarter of a turn, the path is the recorded one."""
    body = np.array([0.0, 0.0, 0.82])
    way = np.linspace([0.06, 0.03, 0.12], [0, 0, 0], 30)
    states = np.stack([state_of(body + step, body, np.eye(3)) for step in way])
    recording = Recording(states, np.arange(30) >= 25, np.zeros((30, 3)))
    moved_body = body + np.array([x, y, 0])
    start = StateView.of(state_of(np.zeros(3), moved_body, about_vertical(turn)))
    _, path = plan_path("lift", recording, start)
    np.testing.assert_allclose(path[-1].at, moved_body, atol=1e-5)
    first = path[0].at - moved_body
    assert np.linalg.norm(first) == pytest.approx(np.linalg.norm(way[0]), abs=1e-5)
    assert first[2] == pytest.approx(0.12, abs=1e-5)
    assert [point.fingers for point in path] == sorted(point.fingers for point in path)


def test_the_hand_leaves_straight_up_from_where_it_let_go() -> None:
    thing = Frame(np.array([0.0, 0.0, 0.9]), 0.0)
    path = [Point(np.array([0.1, 0.0, 0.95 + rise]), DOWN, OPEN, thing) for rise in (0.0, 0.05)]
    follower = Follower("square", (), _path=path)
    hand = np.array([0.0, -0.1, 0.93])
    view = StateView.of(state_of(hand, thing.at, np.eye(3)))
    for number, rise in enumerate((0.0, 0.05)):
        follower._next = number
        at, turn = follower._goal(view)
        np.testing.assert_allclose(at, hand + np.array([0, 0, rise]), atol=1e-6)
        np.testing.assert_allclose(turn, DOWN, atol=1e-6)


def carried(blink: int = 0) -> Recording:
    """A cube is taken at (0.3, 0), lifted by 10 cm and set down 5 cm above the origin.

    Before the grasp the fingers may close around nothing for some steps.
    """
    place, goal = np.array([0.3, 0.0, 0.82]), np.array([0.0, 0.0, 0.87])
    high = np.array([0, 0, 0.1])
    down = np.linspace(place + high, place, 20)
    up, over = np.linspace(place, place + high, 20), np.linspace(place + high, goal + high, 20)
    lower = np.linspace(goal + high, goal, 20)
    hands = np.concatenate([down, up, over, lower, np.linspace(goal, goal + high, 20)])
    bodies = np.concatenate([np.repeat([place], 20, 0), up, over, lower, np.repeat([goal], 20, 0)])
    states = [state_of(*pair, np.eye(3)) for pair in zip(hands, bodies, strict=True)]
    closes = np.arange(100) // 20 % 4 > 0
    closes[10 : 10 + blink] = True
    closes[80:] = False
    return Recording(np.stack(states), closes, np.zeros((100, 3)))


@given(st.floats(-0.2, 0.2), st.floats(-0.2, 0.2), angles)
def test_what_is_carried_goes_up_before_it_goes_over(x: float, y: float, turn: float) -> None:
    """On its way it is never low anywhere but at its place and at its goal, which did not move."""
    body = np.array([x, y, 0.82])
    start = StateView.of(state_of(np.zeros(3), body, about_vertical(turn)))
    _, path = plan_path("stack", carried(), start)
    way = [point for point in path if point.fingers > 0]
    for point in way:
        is_at_end = min(np.hypot(*(point.at - body)[:2]), np.hypot(*point.at[:2])) < 1e-5
        assert is_at_end or point.at[2] > 0.9
    np.testing.assert_allclose(way[-1].thing.at, [0, 0, 0.87], atol=0.011)
    assert all(point.thing is None for point in path[: len(path) // 4])


def test_what_is_dropped_from_high_up_is_brought_over_its_goal_first() -> None:
    """The fingers open where they opened in the recording, not on the way there."""
    recording = carried()
    closes = recording.closes.copy()
    closes[60:] = False  # at the end of the way over
    _, path = plan_path("stack", replace(recording, closes=closes), VIEW)
    last_held = [point for point in path if point.fingers == CLOSE][-1]
    np.testing.assert_allclose(last_held.at[:2], 0, atol=0.02)
    assert last_held.at[2] > 0.95


@given(angles, st.floats(-0.02, 0.02), st.floats(-0.02, 0.02))
def test_the_hand_makes_up_for_how_it_holds_a_thing(turn: float, x: float, y: float) -> None:
    """It goes to where the thing, moved and turned with the hand, comes to its recorded place."""
    follower = Follower("stack", (carried(),))
    off = np.array([x, y, 0])
    follower._path = [Point(np.zeros(3), DOWN, CLOSE, Frame(np.zeros(3), 0.0))]
    body = np.array([0.2, 0.1, 0.9])
    state = StateView.of(state_of(body + off, body, about_vertical(turn)))
    at, hand_turn = follower._goal(state)
    motion = hand_turn @ state.hand_turn.T
    np.testing.assert_allclose(at + motion @ (state.body - state.hand), 0, atol=1e-6)
    quarters = yaw((motion @ state.body_turn)[:, 0]) / (np.pi / 2)
    assert quarters == pytest.approx(round(quarters), abs=1e-5)


def test_a_thing_that_is_lost_is_not_followed() -> None:
    follower = Follower("stack", (carried(),))
    point = Point(np.zeros(3), np.eye(3), CLOSE, Frame(np.zeros(3), 0.0))
    follower._path = [point]
    lost = StateView.of(state_of(np.ones(3), np.zeros(3), np.eye(3)))
    np.testing.assert_array_equal(follower._goal(lost)[0], point.at)


def test_it_waits_until_what_it_takes_has_fallen_into_place() -> None:
    follower = Follower("stack", (carried(),))
    for height, is_still in ((0.89, False), (0.85, False), (0.82, False), (0.82, True)):
        state = state_of(np.array([0, 0, 1.0]), np.array([0.1, 0, height]), np.eye(3))
        action = follower(state)
        assert bool(np.abs(action[:6]).max() > 0.01) == is_still
    grasp = next(point for point in follower._path if point.fingers > 0)
    np.testing.assert_allclose(grasp.at, [0.1, 0, 0.82], atol=0.011)


def test_fingers_that_close_for_a_moment_do_not_begin_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approach before such a moment is part of the way to the grasp."""
    starts = []
    for blink in (0, 3):
        read = partial(lambda found, *_: (found,), carried(blink))
        monkeypatch.setattr("oatkit.jobs.robosuite_replay.read_recordings", read)
        (cut,) = recorded_expert(tmp_path / "d.hdf5", "stack").recordings
        starts.append((len(cut.states), cut.closes.tolist()))
    assert starts[0] == starts[1]


def test_at_the_door_the_hand_is_sent_where_it_was_sent() -> None:
    at, send = np.array([0.1, 0.0, 1.0]), np.array([0.0, 0.02, 0.0])
    states = np.stack([state_of(at, np.zeros(3), np.eye(3))] * 4)
    _, path = plan_path("door", Recording(states, np.ones(4, bool), np.tile(send, (4, 1))), VIEW)
    assert [point.lasts_a_step for point in path] == [False, *[True] * 4]
    np.testing.assert_allclose(path[0].at, at, atol=1e-6)
    np.testing.assert_allclose(path[-1].at, at + send, atol=1e-6)


def test_a_recording_without_a_grasp_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = np.array([0.0, 0.0, 0.82])
    states = np.stack([state_of(body, body, np.eye(3))] * 5)
    nothing = Recording(states, np.zeros(5, bool), np.zeros((5, 3)))
    monkeypatch.setattr("oatkit.jobs.robosuite_replay.read_recordings", lambda *_: (nothing,))
    with pytest.raises(DatasetError, match="no demonstration in which anything is taken"):
        recorded_expert(tmp_path / "d.hdf5", "lift")


@pytest.mark.parametrize("task", ["lift", "stack"])
def test_a_recording_solves_its_task_from_another_start(task: str, tmp_path: Path) -> None:
    skip_without_robosuite()
    path, environment = write_recording(tmp_path / "d.hdf5", task), Robosuite(task)
    solved = 0
    for attempt in range(3):
        expert = recorded_expert(path, task)
        observation = environment.reset(demonstration_seed(0, attempt))
        for _ in range(300):
            result = environment.step(expert(observation[ENVIRONMENT_STATE]))
            observation = result.observation
            if result.is_success:
                solved += 1
                break
    assert solved >= 2
    environment.close()
