"""A scripted expert that picks one object up and puts it on or into another, for LIBERO.

    phase      hand goes to                    fingers
    above      over the object                 open
    down       to the object                   open
    grasp      stays                           close
    up         straight up                     closed
    across     high over the goal              closed
    lower      down over the goal              closed
    release    stays                           open

It sees what policies from state see, and nothing else. `libero-object` and `libero-spatial` are of
this form; `GRIPS` has how each is grasped. A bowl is pinched at its rim, on the side that is
farther from the goal, and comes to the goal with its middle.

Shape letters: S proprioception (8), E environment state (28), A action (7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import Observation
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

STEP_METERS = 0.05
"""How far 1 of an action asks the hand to move."""
NEAR_METERS = 0.012
"""How near the hand comes to where it goes before the next phase begins."""
STILL_METERS, STILL_STEPS = 0.0005, 10
"""A hand that moves less in a step, so many steps into a phase, is held up: the next one begins."""
OPEN, CLOSE = -1.0, 1.0
GRASP, LAST_PHASE = 2, 6
"""Phases that last for a number of steps."""


@dataclass(frozen=True)
class Grip:
    """Where the hand takes an object.

    Attributes:
        offset: Vector from the object to where the fingers close, in meters.
        rim: Distance of the rim from the middle, for what is open at the top; 0 for a full grasp.
        hover: How far above the object the hand comes first.
        carry: Height of the hand while it carries.
        drop: Height of the hand over the goal where it opens.
        grasp_steps: Number of steps in which the fingers close.
    """

    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rim: float = 0.0
    hover: float = 0.12
    carry: float = 0.36
    drop: float = 0.3
    grasp_steps: int = 12


GRIPS = {
    "libero-object": Grip(),
    "libero-spatial": Grip((0.0, 0.0, 0.035), rim=0.048, carry=1.25, drop=0.97),
}
"""Suite to how its objects are taken. Heights are those of its scene: a floor, a table."""


class PickAndPlace:
    """The expert; one object serves one episode.

    Args:
        grip: Where it takes the object.
    """

    def __init__(self, grip: Grip | None = None) -> None:
        self._grip = grip or Grip()
        self._phase = 0
        self._steps = 0
        self._start: NDArray[np.float64] | None = None
        self._end: NDArray[np.float64] | None = None
        self._hand = np.full(3, np.inf)

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """The next action, (7,) within the bounds."""
        hand = observation[STATE][:3].astype(np.float64)
        state_E = observation[ENVIRONMENT_STATE].astype(np.float64)
        if self._start is None or self._end is None:  # the hand moves both, so one look counts
            start, end = state_E[:3], state_E[7:10]
            # The fingers close along y.
            aside = np.array([0, np.copysign(self._grip.rim, start[1] - end[1]), 0])
            self._start, self._end = start + self._grip.offset + aside, end + aside
        target, fingers = self._goal(self._start, self._end)
        move = np.clip((target - hand) / STEP_METERS, -1, 1)
        self._steps += 1
        if self._is_done(hand, target):
            self._phase, self._steps = min(self._phase + 1, LAST_PHASE), 0
        self._hand = hand
        return np.array([*move, 0.0, 0.0, 0.0, fingers], np.float32)

    def _is_done(self, hand: NDArray[np.float64], target: NDArray[np.float64]) -> bool:
        """Whether the next phase begins."""
        if self._phase in (GRASP, LAST_PHASE):
            return self._steps >= self._grip.grasp_steps
        is_near = np.abs(target - hand).max() < NEAR_METERS
        is_still = np.abs(self._hand - hand).max() < STILL_METERS and self._steps > STILL_STEPS
        return bool(is_near or is_still)

    def _goal(
        self, start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Where the hand goes in this phase, and what its fingers do."""
        grip, (x, y, z), (to_x, to_y, _) = self._grip, start, end
        place, fingers = (
            ((x, y, z + grip.hover), OPEN),
            ((x, y, z), OPEN),
            ((x, y, z), CLOSE),
            ((x, y, grip.carry), CLOSE),
            ((to_x, to_y, grip.carry), CLOSE),
            ((to_x, to_y, grip.drop), CLOSE),
            ((to_x, to_y, grip.drop), OPEN),
        )[self._phase]
        return np.array(place), fingers
