"""What every simulator offers: episodes by seed, steps, and a picture where one is wanted.

Shape letters: A action, H W C image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.errors import unknown_name
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

STATE_KEY = STATE
ENVIRONMENT_STATE_KEY = ENVIRONMENT_STATE
GOALS_PER_SEED = 1_000_000

Observation = dict[str, NDArray[np.float32]]
"""Vectors by LeRobot's keys; images come from `render`."""
ImageSize = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class StepResult:
    """What one step gave.

    Attributes:
        observation: As from `reset`.
        is_success: Whether the task is solved after this very step; it may be undone later.
        is_over: Whether the step limit is reached, so that only `reset` may follow.
        score: How well the task is done after this step, 0 to 1; None where it is solved or not.
    """

    observation: Observation
    is_success: bool
    is_over: bool
    score: float | None = None


class Simulator(Protocol):
    """One task. An episode is a function of its seed and its actions alone."""

    def reset(self, seed: int, /) -> Observation:
        """Start the episode of a seed."""

    def step(self, action: ArrayLike) -> StepResult:
        """Execute one action, (A,) within the bounds."""

    def render(self) -> NDArray[np.uint8]:
        """The scene, (H, W, 3) RGB; only where `image_size` was given."""

    def close(self) -> None:
        """Free what it holds."""


Make = Callable[[str, ImageSize | None], Simulator]


@dataclass(frozen=True)
class SimulatorKind:
    """A simulator before one is made, so that nothing of its packages is imported.

    Attributes:
        name: What the command line calls it.
        make: From a task and the `image_size` of `render` (None for no rendering) to a simulator.
            Worker processes call it, so it is a function or class of a module.
        film: The same for videos, where pictures may be plainer than what a policy reads.
        tasks: Task name to instruction.
        default_tasks: Where none are named.
        packages: Those whose versions decide what happens, as PyPI calls them.
        extra: What installs them.
        fps: Steps a second.
        max_steps: Of an episode.
        action_low: (A,) bounds.
        action_high: (A,) bounds.
        cameras: Names of the one view that `render` gives.
        task_suffix: What its own names of tasks end with; users may write it or leave it out.
    """

    name: str
    make: Make
    film: Make
    tasks: dict[str, str]
    default_tasks: tuple[str, ...]
    packages: tuple[str, ...]
    extra: str
    fps: int
    max_steps: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    cameras: tuple[str, ...]
    task_suffix: str = ""

    def task_name(self, task: str) -> str:
        """The key of `task` in `tasks`."""
        name = task.removesuffix(self.task_suffix)
        if name not in self.tasks:
            raise ValueError(unknown_name(f"{self.name} task", task, self.tasks))
        return name

    @property
    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The lowest and the highest action, (A,) each."""
        return np.array(self.action_low, np.float32), np.array(self.action_high, np.float32)


def demonstration_seed(seed: int, attempt: int) -> int:
    """The goal seed of a demonstration: always even, so no evaluation ever has it."""
    return 2 * _goal_number(seed, attempt)


def evaluation_seed(seed: int, episode: int) -> int:
    """The goal seed of an evaluation episode: always odd, so no demonstration ever has it."""
    return 2 * _goal_number(seed, episode) + 1


def _goal_number(seed: int, index: int) -> int:
    if seed < 0:
        raise ValueError(f"the seed is {seed}, expected 0 or more")
    if not 0 <= index < GOALS_PER_SEED:
        raise ValueError(f"a seed has goals 0 to {GOALS_PER_SEED - 1}, asked for {index}")
    return seed * GOALS_PER_SEED + index


def checked_action(action: ArrayLike, kind: SimulatorKind) -> NDArray[np.float32]:
    """An action (A,) as a simulator takes it; a wrong one is an error and never clipped here."""
    action_A = np.asarray(action, dtype=np.float32)
    low_A, high_A = kind.bounds
    if action_A.shape != low_A.shape:
        raise ValueError(f"an action has shape {action_A.shape}, expected {low_A.shape}")
    if not np.isfinite(action_A).all():
        raise ValueError(f"an action is not finite: {action_A.tolist()}")
    if (action_A < low_A).any() or (action_A > high_A).any():
        bounds = f"[{kind.action_low[0]:g}, {kind.action_high[0]:g}]"
        raise ValueError(f"an action is outside {bounds}: {action_A.tolist()}; clip it first")
    return action_A
