"""Scripted experts for the tasks of robosuite: from the environment state to an action.

    expert = scripted_expert("lift")
    action = expert(observation["observation.environment_state"])

An expert has no memory. It reads from the state how far the task has come (is the hand over what it
grasps, around it, does it hold it, is it where it belongs) and moves towards what comes next, so
that it has an answer in every state, also in one where noise or a push has brought it, and a
recorded action is exactly its answer to the recorded state.

Shape letters: E environment state (31), A action (7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from oatkit.envs.robosuite import ACTION_METERS, ACTION_RADIANS, ROBOSUITE, StateView

GAIN = 1.5
"""How much of the way an action asks for: the arm covers about a third of that in a step."""
OPEN, CLOSE = -1.0, 1.0
UP = np.array([0.0, 0.0, 1.0])
DOWN = -UP
START_LINE = np.array([0.0, 1.0, 0.0])
"""The line of the fingers with which the arm starts; it turns no more than it must from there."""
BASE = np.array([-0.56, 0.0])
"""Where the arm stands on the plane, in all tasks but `can`."""
BEFORE_MIDDLE = np.array([-0.045, -0.055, 0.03])
"""Where in its bin the can is let go, from the bin's middle."""
NEAR = 0.01
"""Meters aside within which the hand comes all the way to what it grasps."""
AROUND = 0.015
"""Meters from there within which that is between the fingers."""
SLOPE = 3.0
"""How much farther off the hand stays for every meter that it is aside."""
METERS_PER_RADIAN = 0.05
"""What an angle that is still to be turned counts as meters aside."""
STEP = 0.05
"""Meters that the hand is sent on where it only has to go on in a direction."""

Vector = NDArray[np.float64]
Expert = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Grasp:
    """How something is grasped.

    Attributes:
        at: Where the point between the fingertips goes.
        line: Line on which the fingers close, a unit vector.
        width: Distance between the fingers that hold it, in meters.
        approach: Where the palm points, a unit vector across the line.
        hover: Distance from which the hand comes, in meters.
        slack: Meters that the hand may be off while it holds it.
    """

    at: Vector
    line: Vector
    width: float
    approach: Vector = field(default_factory=DOWN.copy)
    hover: float = 0.08
    slack: float = AROUND

    @property
    def turn(self) -> Vector:
        """Rotation matrix of the hand."""
        return np.stack([self.line, np.cross(self.approach, self.line), self.approach], axis=1)

    def is_held(self, state: StateView) -> bool:
        """Whether it is between the fingers, and they are no wider apart than it is."""
        return self.is_around(state, self.slack) and _opening(state) < self.width + 0.004

    def is_around(self, state: StateView, slack: float = AROUND) -> bool:
        """Whether it is between the fingers."""
        off = state.hand - self.at
        depth = off @ self.approach
        return bool(abs(depth) < slack and np.linalg.norm(off - depth * self.approach) < slack)


def scripted_expert(task: str) -> Expert:
    """The expert for a task: environment state (31,) to action (7,) in [-1, 1]."""
    answer = EXPERTS[ROBOSUITE.task_name(task)]

    def act(environment_state_E: NDArray[np.float32]) -> NDArray[np.float32]:
        return answer(StateView.of(environment_state_E)).astype(np.float32)

    return act


def _lift(state: StateView) -> Vector:
    grasp = Grasp(state.body, _side_of_cube(state.body_turn), width=0.044)
    if not grasp.is_held(state):
        return _take(state, grasp)
    return move_hand(state, state.hand + STEP * UP, grasp.turn, CLOSE)


def _stack(state: StateView) -> Vector:
    """The red cube is 4 cm wide, the green one 5 cm: their centers end 4.5 cm apart."""
    where = state.goal + 0.045 * UP
    off = state.body - where
    is_beside = off[2] < -0.02 and np.hypot(*off[:2]) < 0.1
    line = _side_of_cube(state.body_turn, away_from=off if is_beside else None)
    grasp = Grasp(state.body, line, width=0.04)
    if np.hypot(*off[:2]) < 0.02 and off[2] < 0.008:
        return _release(state, grasp)
    if not grasp.is_held(state):
        return _take(state, grasp)
    return _carry(state, where, clearance=0.08)


def _can(state: StateView) -> Vector:
    """The middle of the bin is where the arm hardly reaches: the can goes before it."""
    grasp = Grasp(state.body + 0.02 * UP, START_LINE, width=0.05, hover=0.1)
    where = state.goal + BEFORE_MIDDLE
    off = state.body - where
    if np.hypot(*off[:2]) < 0.04 and off[2] < 0.01:
        return _release(state, grasp)
    if not grasp.is_held(state):
        return _take(state, grasp)
    return _carry(state, where, clearance=0.15)


def _square(state: StateView) -> Vector:
    """The nut is held by its handle, 5.4 cm from its center; the peg is 10 cm high."""
    handle = state.body + 0.054 * state.body_turn[:, 0]
    grasp = Grasp(handle, _level(state.body_turn[:, 1], START_LINE), width=0.032)
    if not grasp.is_held(state):
        return _take(state, grasp)
    turn = _turn_to_peg(state)
    where = state.goal - 0.01 * UP
    return _carry(state, where, clearance=0.15, turn=turn, slope=30.0, near=0.003, gain=1.0)


def _door(state: StateView) -> Vector:
    """The handle is pinched near its end, pressed down about its axis, and pulled."""
    outward, hinge = state.body_turn[:, 1], state.goal + 0.555 * state.goal_turn[:, 0]
    lever = state.body_turn @ [0.11, -0.1, 0.0]
    line = state.body_turn[:, 2]
    grasp = Grasp(state.body + lever, -line, 0.05, approach=outward, hover=0.12, slack=0.03)
    if not grasp.is_held(state):
        return _take(state, grasp)
    opened, pressed = state.angles
    if opened < 0.02 and abs(pressed) < 0.9:
        onward = np.cross(outward, lever)
        onward *= -np.sign(onward @ UP)
    else:
        onward = np.cross(UP, state.body - hinge)
    return move_hand(state, state.hand + STEP * onward / np.linalg.norm(onward), grasp.turn, CLOSE)


def _turn_to_peg(state: StateView) -> float:
    """The angle by which the nut has to be turned, in radians.

    A square fits in four ways. Of those that turn the hand by no more than a quarter from how it
    starts, the one is taken that leaves it nearest to the arm's base.
    """
    needed = yaw(state.goal_turn[:, 0]) - yaw(state.body_turn[:, 0])
    hand = yaw(state.hand_turn[:, 0]) - yaw(START_LINE)

    def reach(turn: float) -> float:
        swung = about_vertical(turn) @ (state.hand - state.body)
        return float(np.hypot(*((state.goal + swung)[:2] - BASE)))

    turns = [wrapped(needed + quarter * np.pi / 2) for quarter in range(4)]
    return min(turns, key=lambda turn: (abs(wrapped(hand + turn)) > 1.7, reach(turn)))


def _take(state: StateView, grasp: Grasp) -> Vector:
    """Come to it with open fingers, and close them around it."""
    if grasp.is_around(state):
        return move_hand(state, grasp.at, grasp.turn, CLOSE)
    off = state.hand - grasp.at
    aside = np.linalg.norm(off - (off @ grasp.approach) * grasp.approach)
    angle = np.linalg.norm(turn_between(state.hand_turn, grasp.turn))
    distance = np.clip(SLOPE * (aside + METERS_PER_RADIAN * angle - NEAR), 0, grasp.hover)
    return move_hand(state, grasp.at - distance * grasp.approach, grasp.turn, OPEN)


def _carry(
    state: StateView,
    where: Vector,
    *,
    clearance: float,
    turn: float = 0.0,
    slope: float = SLOPE,
    near: float = NEAR,
    gain: float = GAIN,
) -> Vector:
    """Bring what is held from above to a place: up, over it, and down.

    Args:
        state: State.
        where: Where its center goes.
        clearance: How high above that place it comes.
        turn: Angle about the vertical by which it has to be turned.
        slope: How much higher it stays for every meter that it is aside.
        near: How far aside it may be to come all the way down, in meters.
        gain: How much of the way an action asks for; with 1 the arm never goes too far.
    """
    off = where - state.body
    aside = np.hypot(*off[:2]) + METERS_PER_RADIAN * abs(turn)
    off[2] += np.clip(slope * (aside - near), 0, clearance)
    about = about_vertical(turn)
    around = (about - np.eye(3)) @ (state.hand - state.body)
    if off[2] > 0.03:  # first up
        off[:2] = around[:] = 0
    fingers = state.hand_turn[:, 0]
    grasp = Grasp(state.hand, about @ _level(fingers, towards=fingers), width=0)
    return move_hand(state, state.hand + off + around, grasp.turn, CLOSE, gain)


def _release(state: StateView, grasp: Grasp) -> Vector:
    """Open the fingers where they are, and go up when they are open."""
    has_let_go = _opening(state) > grasp.width + 0.015
    return move_hand(state, state.hand + float(has_let_go) * STEP * UP, grasp.turn, OPEN)


def move_hand(
    state: StateView, where: Vector, turn: Vector, fingers: float, gain: float = GAIN
) -> Vector:
    """The action that brings the hand to a place and turns it as a rotation matrix says."""
    motion = gain * (where - state.hand) / ACTION_METERS
    turning = gain * turn_between(state.hand_turn, turn) / ACTION_RADIANS
    return np.concatenate([_within(motion), _within(turning), [fingers]])


def _within(vector: Vector) -> Vector:
    """A vector in its own direction, with no component beyond 1."""
    return vector / max(1.0, np.abs(vector).max())


def _opening(state: StateView) -> float:
    """Distance between the fingers, in meters."""
    return float(state.fingers[0] - state.fingers[1])


def _side_of_cube(turn: Vector, away_from: Vector | None = None) -> Vector:
    """The level axis of a cube that is nearest to the line of the fingers at the start.

    Where something stands beside the cube in a direction, it is the axis most across that.
    """
    axes = [_level(axis, START_LINE) for axis in turn.T if abs(axis @ UP) < 0.7]
    if away_from is not None:
        return min(axes, key=lambda axis: abs(float(axis @ away_from)))
    return max(axes, key=lambda axis: float(axis @ START_LINE))


def _level(axis: Vector, towards: Vector) -> Vector:
    """A level unit vector along an axis, in the sense that is nearer to a direction."""
    level = axis * [1, 1, 0]
    return level / np.linalg.norm(level) * (1.0 if level @ towards >= 0 else -1.0)


def turn_between(start: Vector, end: Vector) -> Vector:
    """The turn that leads from one rotation matrix to another: its axis times radians."""
    return Rotation.from_matrix(end @ start.T).as_rotvec()


def about_vertical(angle: float) -> Vector:
    """The matrix of a turn about the vertical."""
    return Rotation.from_rotvec(angle * UP).as_matrix()


def yaw(axis: Vector) -> float:
    """The angle of an axis about the vertical, in radians."""
    return float(np.arctan2(axis[1], axis[0]))


def wrapped(angle: float) -> float:
    """An angle between -pi and pi."""
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


EXPERTS: dict[str, Callable[[StateView], Vector]] = {
    "lift": _lift,
    "stack": _stack,
    "can": _can,
    "square": _square,
    "door": _door,
}
