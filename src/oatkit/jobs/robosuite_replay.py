"""Recorded demonstrations of robosuite, replayed from other start poses.

    expert = recorded_expert(Path("demo.hdf5"), "stack")
    action = expert(observation["observation.environment_state"])

As in MimicGen: the path of the hand until what is handled has left its place belongs to that
thing, the path from high above the goal to the goal. Both are moved and turned about the vertical
to where these are in the new scene, and the hand goes along them; from one to the other it goes
straight up and over.

    recorded:   hand ----> cube ... ~~~~~> goal        ----> path that belongs to the cube
    new scene:  hand - - ----> cube - - - ~~~~~> goal  ~~~~> path that belongs to the goal

On the way to the goal it is the thing that follows its recorded path: where it sits otherwise in
the hand than in the recording, the hand makes up for it. At the door, which resists, the hand is
sent step by step to where it was sent, not to where it came. Whether all that succeeds is found by
trying.

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
    BASE,
    CLOSE,
    GAIN,
    OPEN,
    START_LINE,
    UP,
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
PATIENCE_ON_THE_WAY = 60
"""The same where it comes from farther off than from the point before of a recording."""
RAISED = 0.01
"""Meters by which something has to leave its place to count as held."""
NEARBY = 0.15
"""Meters from which on a hand that comes to grasp something follows its recorded path."""
LIFTED = 0.04
"""Meters above its place at which it no longer belongs there."""
REACH = 0.82
"""Meters from its base up to which the arm brings its hand, pointing down, over a goal."""
HIGH = 0.9
"""Share of how far something is lifted, down to which it is brought over its goal."""
RESTS = 0.0005
"""Meters that something at rest moves in a step; some objects fall into place at the start."""
SLIPPED = 0.03
"""Meters by which a thing may be nearer to the hand or farther off than in the recording; beyond
that it is not held, and the hand goes along its own path."""
BLINK = 10
"""Steps for which fingers have to stay closed to count as closed before the grasp."""
AFTER_RELEASE = 20
"""Steps of a recording that are kept after the fingers open."""
FOLDS = {"lift": 4, "stack": 4, "can": 0, "square": 1}
"""The number of turns about the vertical after which what is grasped looks the same; 0 for any."""
FOLDS_AT_GOAL = {"stack": 4, "can": 0, "square": 4}
"""The same of what is brought to its goal: the nut fits its peg in four ways."""
HALF_TURN = np.diag([-1.0, -1.0, 1.0])
"""Turns a hand about its palm; two fingers grasp as before."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the hand's path.

    Attributes:
        at: Position of the hand.
        turn: Rotation matrix of the hand.
        fingers: What the fingers do.
        thing: Where the thing is then that was taken; None before it is carried.
        lasts_a_step: Whether the hand goes on after one step, wherever it is.
        patience: Steps after which it goes on, wherever it is.
    """

    at: Vector
    turn: Vector
    fingers: float
    thing: Frame | None = None
    lasts_a_step: bool = False
    patience: int = PATIENCE


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

    def way_to(self, other: Frame, folds: int) -> tuple[float, Vector]:
        """How far another frame is, its turn counted as meters, and the matrix of that turn."""
        turn = self.turn_to(other, folds)
        way = np.linalg.norm(other.at - self.at) + METERS_PER_RADIAN * abs(turn)
        return float(way), about_vertical(turn)


@dataclass
class Follower:
    """An expert for one episode, which goes along the path of a recording.

    Attributes:
        task: Name of the task.
        recordings: Recordings, of which it takes the one that has to be moved least.

    What it carries is turned to its goal by `_fit` more than it was in the recording.
    """

    task: str
    recordings: tuple[Recording, ...]
    _path: list[Point] = field(default_factory=list)
    _next: int = 0
    _waited: int = 0
    _body: Vector | None = None
    _fit: float | None = None
    _let_go: tuple[Vector, Vector, float] | None = None

    def __call__(self, environment_state_E: NDArray[np.float32]) -> NDArray[np.float32]:
        state = StateView.of(environment_state_E)
        if not self._path:
            before, self._body = self._body, state.body
            if before is None or np.linalg.norm(state.body - before) > RESTS:
                return move_hand(state, state.hand, state.hand_turn, OPEN).astype(np.float32)
            self._path = min(
                (plan_path(self.task, recording, state) for recording in self.recordings),
                key=lambda found: found[0],
            )[1]
        if self._has_reached(state) and self._next < len(self._path) - 1:
            self._next, self._waited = self._next + 1, 0
        self._waited += 1
        point = self._path[self._next]
        gain = 1.0 if point.lasts_a_step else GAIN
        return move_hand(state, *self._goal(state), point.fingers, gain).astype(np.float32)

    def _goal(self, state: StateView) -> tuple[Vector, Vector]:
        """Where the hand goes: to its point, or so that what it holds comes to where that was."""
        point = self._path[self._next]
        if point.thing is None:
            return point.at, point.turn
        if point.fingers == OPEN:  # straight up, on whichever side it let go
            self._let_go = self._let_go or (state.hand, state.hand_turn, point.at[2])
            hand, turn, height = self._let_go
            return hand + max(0.0, point.at[2] - height) * UP, turn
        reach = state.hand - state.body
        if abs(np.linalg.norm(reach) - np.linalg.norm(point.at - point.thing.at)) > SLIPPED:
            return point.at, point.turn
        hand_turn = wrapped(yaw(point.turn[:, 0]) - yaw(state.hand_turn[:, 0]))
        brought = Frame(state.body, yaw(state.body_turn[:, 0]) + hand_turn)
        rest = self._rest(point, brought, about_vertical(hand_turn) @ reach)
        at = point.thing.at + about_vertical(hand_turn + rest) @ reach
        return at, about_vertical(rest) @ point.turn

    def _rest(self, point: Point, brought: Frame, reach: Vector) -> float:
        """The turn that is left until what is carried fits its goal, on the side chosen at first.

        Args:
            point: Where it is carried to.
            brought: Where it would be if the hand were turned as at the point.
            reach: Vector from it to the hand then.
        """
        assert point.thing is not None
        folds = FOLDS_AT_GOAL[self.task]
        if folds == 0:
            return 0.0
        if self._fit is None:
            rest = brought.turn_to(point.thing, folds)
            side = side_within_reach(point, about_vertical(rest) @ reach, rest, folds)
            self._fit = wrapped(brought.angle + rest + side - point.thing.angle)
        return wrapped(point.thing.angle + self._fit - brought.angle)

    def _has_reached(self, state: StateView) -> bool:
        point = self._path[self._next]
        if self._waited >= point.patience or point.lasts_a_step:
            return True
        if self._next and point.fingers != self._path[self._next - 1].fingers:
            return False
        where, how = self._goal(state)
        way = np.linalg.norm(where - state.hand)
        turn = np.linalg.norm(turn_between(state.hand_turn, how))
        following = self._path[min(self._next + 1, len(self._path) - 1)]
        near = REACHED if following.fingers == point.fingers else REACHED_BEFORE_FINGERS
        return bool(way + METERS_PER_RADIAN * turn < near)


def side_within_reach(point: Point, reach: Vector, turn: float, folds: int) -> float:
    """The further turn with which the thing fits its goal too and the hand, which turns least, does
    not have to go farther than the arm reaches.

    Args:
        point: Where the thing is brought to.
        reach: Vector from the thing to the hand there, without a further turn.
        turn: How far the hand is turned then from how it is at the point.
        folds: Number of turns after which the thing fits again.
    """
    assert point.thing is not None
    found = {}
    for number in range(folds):
        side = wrapped(2 * np.pi * number / folds)
        hand = point.thing.at + about_vertical(side) @ reach
        line = about_vertical(turn + side) @ point.turn[:, 0]
        too_far = max(0.0, float(np.linalg.norm(hand[:2] - BASE)) - REACH)
        too_turned = max(0.0, -float(line @ START_LINE))
        found[side] = (too_far + too_turned, abs(wrapped(turn + side)))
    return min(found, key=lambda side: found[side])


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
    steps = [
        (StateView.of(state_E), CLOSE if closes else OPEN)
        for state_E, closes in zip(recording.states, recording.closes, strict=True)
    ]
    views = [view for view, _ in steps]
    new = _frame(task, start)
    if task == "door":
        return _sent(steps, recording.sent, _frame(task, views[0]), new)
    near = _last_far(views)
    old = _frame(task, views[near])  # by then it has fallen into place
    if task == "lift":
        return _moved(steps[near:], old, new, FOLDS[task], has_thing=False)
    held = int(np.flatnonzero(recording.closes)[-1])
    lifted, high = _lifted_at(views), min(held, _last_high(views))
    taken, to_it = _moved(steps[near : lifted + 1], old, new, FOLDS[task], has_thing=False)
    if to_it[-1].turn[:, 0] @ START_LINE < 0:  # the arm does not turn so far
        to_it = [replace(point, turn=point.turn @ HALF_TURN) for point in to_it]
    old_goal = Frame.of(views[0].goal, views[0].goal_turn)
    new_goal = Frame.of(start.goal, start.goal_turn)
    brought, to_goal = _moved(steps[high:], old_goal, new_goal, 4, has_thing=True)
    up = np.array([*to_it[-1].at[:2], to_goal[0].at[2]])
    to_goal[0] = replace(to_goal[0], patience=PATIENCE_ON_THE_WAY)
    return taken + brought, [*to_it, replace(to_it[-1], at=up), *to_goal]


def _moved(
    steps: list[tuple[StateView, float]], old: Frame, new: Frame, folds: int, *, has_thing: bool
) -> tuple[float, list[Point]]:
    """The path of some steps that belong to a frame, where that frame is elsewhere, and how far."""
    way, about = old.way_to(new, folds)

    def place(at: Vector) -> Vector:
        return new.at + about @ (at - old.at)

    path = [
        Point(
            *(place(view.hand), about @ view.hand_turn, fingers),
            Frame.of(place(view.body), about @ view.body_turn) if has_thing else None,
        )
        for view, fingers in steps
    ]
    return way, _thinned(path)


def _sent(
    steps: list[tuple[StateView, float]], sent: Vector, old: Frame, new: Frame
) -> tuple[float, list[Point]]:
    """The same of where the hand was sent in each step, once it is where it was at first."""
    way, about = old.way_to(new, folds=1)
    path = [
        Point(
            *(new.at + about @ (view.hand + send - old.at), about @ view.hand_turn, fingers),
            lasts_a_step=True,
        )
        for (view, fingers), send in zip(steps, sent, strict=True)
    ]
    start = replace(path[0], at=new.at + about @ (steps[0][0].hand - old.at), lasts_a_step=False)
    return way, [start, *path]


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
        if not recording.closes[first] or not _is_raised(views[first:last]):
            continue
        before = max(0, place - 1)
        while before >= 2 and bounds[before] - bounds[before - 1] < BLINK:
            before -= 2
        begin, end = bounds[before], min(len(views), last + AFTER_RELEASE)
        closes = recording.closes.copy()
        closes[begin:first] = False
        return replace(recording, closes=closes).part(begin, end)
    return None


def _last_far(views: list[StateView]) -> int:
    """The last step before the grasp at which the hand is not yet near the thing."""
    raised = views[: _lifted_at(views, RAISED)]
    far = [np.linalg.norm(view.hand - view.body) > NEARBY for view in raised]
    return int(np.flatnonzero(far)[-1]) if any(far) else 0


def _is_raised(views: list[StateView]) -> bool:
    """Whether the thing is ever above where it was before."""
    return _lifted_at(views, RAISED) < len(views)


def _lifted_at(views: list[StateView], height: float = LIFTED) -> int:
    """The first step at which the thing is so far above its place; their number if it never is."""
    heights = _heights(views)
    (above,) = np.nonzero(heights > np.minimum.accumulate(heights) + height)
    return int(above[0]) if len(above) else len(views)


def _last_high(views: list[StateView]) -> int:
    """The last step at which the thing is high above where it was lowest before."""
    heights = _heights(views)
    top = int(heights.argmax())
    lowest = heights[: top + 1].min()
    return int(np.nonzero(heights >= lowest + HIGH * (heights[top] - lowest))[0][-1])


def _heights(views: list[StateView]) -> Vector:
    return np.array([view.body[2] for view in views])
