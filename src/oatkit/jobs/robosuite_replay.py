"""Recorded demonstrations of robosuite, replayed from other start poses.

    expert = recorded_expert(Path("demo.hdf5"), "stack")
    action = expert(observation["observation.environment_state"])

As in MimicGen: a recording is cut where what is handled leaves its place. The path of the hand
before the cut belongs to the thing that is grasped, the path after it to the goal. Both are moved
and turned about the vertical to where these are in the new scene, and the hand goes along them,
from one to the other on a straight line. Whether that succeeds is found by trying.

    recorded:   hand ----> cube ~~~~~> goal        ----> path that belongs to the cube
    new scene:  hand - - ----> cube - - ~~~~~> goal    ~~~~> path that belongs to the goal

Shape letters: E environment state (31), A action (7).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.robosuite import StateView
from oatkit.envs.robosuite_experts import (
    CLOSE,
    OPEN,
    Expert,
    Vector,
    about_vertical,
    move_hand,
    turn_between,
    wrapped,
    yaw,
)
from oatkit.errors import DatasetError
from oatkit.jobs.robosuite_recordings import Recording, read_recordings

SPACING = 0.01
"""Meters between the points of a path that are kept."""
METERS_PER_RADIAN = 0.1
"""What a turn counts as meters of a path."""
REACHED = 0.015
"""Meters (and turn) from a point at which the hand goes on to the next."""
REACHED_BEFORE_FINGERS = 0.006
"""The same where the fingers move next."""
PATIENCE = 10
"""Steps after which it goes on anyway, and for which it waits where the fingers move."""
RAISED = 0.01
"""Meters by which something has to leave its place to count as held."""
LIFTED = 0.04
"""Meters above its place at which it no longer meets what stands beside it."""
AFTER_RELEASE = 20
"""Steps of a recording that are kept after the fingers open."""
FOLDS = {"lift": 4, "stack": 4, "can": 0, "square": 1}
"""The number of turns about the vertical after which what is handled looks the same; 0 for any."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the hand's path.

    Attributes:
        at: Position of the hand.
        turn: Rotation matrix of the hand.
        fingers: What the fingers do.
    """

    at: Vector
    turn: Vector
    fingers: float


@dataclass(frozen=True, eq=False)
class Frame:
    """Where something is: its position and its angle about the vertical."""

    at: Vector
    angle: float

    @classmethod
    def of(cls, at: Vector, turn: Vector) -> Frame:
        return cls(at, yaw(turn[:, 0]))

    def turn_to(self, other: Frame, folds: int) -> float:
        """The least turn that leads to another frame, of something with so many like sides."""
        if folds == 0:
            return 0.0
        share = 2 * np.pi / folds
        turn = wrapped(other.angle - self.angle)
        return float(turn - share * np.round(turn / share))


@dataclass
class Follower:
    """An expert for one episode, which goes along the path of a recording.

    Attributes:
        task: Name of the task.
        recordings: Recordings, of which it takes the one that has to be moved least.
    """

    task: str
    recordings: tuple[Recording, ...]
    _path: list[Point] = field(default_factory=list)
    _next: int = 0
    _waited: int = 0

    def __call__(self, environment_state_E: NDArray[np.float32]) -> NDArray[np.float32]:
        state = StateView.of(environment_state_E)
        if not self._path:
            self._path = min(
                (plan_path(self.task, recording, state) for recording in self.recordings),
                key=lambda found: found[0],
            )[1]
        if self._has_reached(state) and self._next < len(self._path) - 1:
            self._next, self._waited = self._next + 1, 0
        self._waited += 1
        point = self._path[self._next]
        return move_hand(state, point.at, point.turn, point.fingers).astype(np.float32)

    def _has_reached(self, state: StateView) -> bool:
        point = self._path[self._next]
        if self._waited >= PATIENCE:
            return True
        if self._next and point.fingers != self._path[self._next - 1].fingers:
            return False
        way = np.linalg.norm(point.at - state.hand)
        turn = np.linalg.norm(turn_between(state.hand_turn, point.turn))
        following = self._path[min(self._next + 1, len(self._path) - 1)]
        near = REACHED if following.fingers == point.fingers else REACHED_BEFORE_FINGERS
        return bool(way + METERS_PER_RADIAN * turn < near)


def recorded_expert(path: Path, task: str) -> Expert:
    """An expert for one episode that replays the recordings of a file."""
    recordings = tuple(
        cut for recording in read_recordings(path, task) if (cut := _relevant(task, recording))
    )
    if not recordings:
        raise DatasetError(f"{path} has no demonstration in which anything is taken and moved")
    return Follower(task, recordings)


def plan_path(task: str, recording: Recording, start: StateView) -> tuple[float, list[Point]]:
    """The path of a recording in a new scene, and how far it has to be moved for that, in meters.

    Args:
        task: Name of the task.
        recording: What was recorded, no more than one grasp.
        start: First state of the new episode.
    """
    views = [StateView.of(state_E) for state_E in recording.states]
    cut = len(views) if task in ("lift", "door") else _leaves_at(views, LIFTED)
    frames = [
        (_frame(task, views[0]), _frame(task, start), FOLDS.get(task, 1), slice(0, cut)),
        (
            Frame.of(views[0].goal, views[0].goal_turn),
            Frame.of(start.goal, start.goal_turn),
            4,
            slice(cut, len(views)),
        ),
    ]
    moved, path = 0.0, []
    for old, new, folds, part in frames:
        if part.start == part.stop:
            continue
        turn = old.turn_to(new, folds)
        about = about_vertical(turn)
        moved += float(np.linalg.norm(new.at - old.at)) + METERS_PER_RADIAN * abs(turn)
        path += [
            Point(
                new.at + about @ (view.hand - old.at),
                about @ view.hand_turn,
                CLOSE if closes else OPEN,
            )
            for view, closes in zip(views[part], recording.closes[part], strict=True)
        ]
    return moved, _thinned(path)


def _frame(task: str, view: StateView) -> Frame:
    """What the first part of a path belongs to: the thing that is grasped, or the door's frame."""
    if task == "door":
        return Frame.of(view.goal, view.goal_turn)
    return Frame.of(view.body, view.body_turn)


def _thinned(path: list[Point]) -> list[Point]:
    """The points of a path at equal distances, and those at which the fingers change."""
    kept, way = [path[0]], 0.0
    for before, point in pairwise(path):
        turn = np.linalg.norm(turn_between(before.turn, point.turn))
        way += float(np.linalg.norm(point.at - before.at) + METERS_PER_RADIAN * turn)
        if point.fingers != before.fingers:
            kept += [replace(point, fingers=before.fingers), point]
            way = 0.0
        elif way >= SPACING:
            kept.append(point)
            way = 0.0
    return [*kept, path[-1]]


def _relevant(task: str, recording: Recording) -> Recording | None:
    """The part of a recording in which the thing is taken and moved; None where it never is.

    It begins where the fingers opened last before that, and ends some steps after they open again.
    """
    if task == "door":
        return recording
    views = [StateView.of(state_E) for state_E in recording.states]
    switches = np.flatnonzero(np.diff(recording.closes.astype(int))) + 1
    bounds = [0, *switches.tolist(), len(views)]
    for place, (first, last) in enumerate(pairwise(bounds)):
        if not recording.closes[first] or _leaves_at(views[first:last], RAISED) == last - first:
            continue
        begin = bounds[place - 1] if place else 0
        end = min(len(views), last + AFTER_RELEASE)
        return Recording(recording.states[begin:end], recording.closes[begin:end])
    return None


def _leaves_at(views: list[StateView], height: float) -> int:
    """The first step at which the thing is so far above its place; their number if it never is."""
    lowest = np.inf
    for step, view in enumerate(views):
        lowest = min(lowest, view.body[2])
        if view.body[2] > lowest + height:
            return step
    return len(views)
