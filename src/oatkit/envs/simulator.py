"""What every simulator offers: episodes by seed, steps, and images of its named cameras.

Shape letters: A action, H W C image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.errors import MissingExtraError, OatkitError, unknown_name

GOALS_PER_SEED = 1_000_000

Observation = dict[str, NDArray[np.float32]]
"""Vectors by LeRobot's keys; images come from `render`."""
ImageSize = tuple[int, int]
"""Height and width."""
Cameras = Mapping[str, ImageSize]
"""The cameras to render, and the size of each one's image."""


@dataclass(frozen=True)
class StepResult:
    """What one step gave.

    Attributes:
        observation: What is seen after the step, in the form that `reset` gives it.
        is_success: Whether the task is solved after this very step; it may be undone later.
        is_over: Whether the step limit is reached, so that only `reset` may follow.
        score: How well the task is done after this step, 0 to 1; None where a task has no score.
    """

    observation: Observation
    is_success: bool
    is_over: bool
    score: float | None = None


class Simulator(Protocol):
    """One task, and the cameras it was made with.

    An episode is a function of its seed and its actions alone.
    """

    def reset(self, seed: int, /) -> Observation:
        """Start the episode of a seed."""

    def step(self, action: ArrayLike) -> StepResult:
        """Execute one action, (A,) within the bounds."""

    def render(self) -> dict[str, NDArray[np.uint8]]:
        """What each of its cameras sees now: camera to image, (H, W, 3) RGB."""

    def close(self) -> None:
        """Free memory and graphics contexts."""


Make = Callable[[str, Cameras], Simulator]
"""Makes a simulator of a task with some cameras. Worker processes call it, so it is a function or
class of a module."""


@dataclass(frozen=True)
class SimulatorKind:
    """What is known about a simulator before one is made, so that its packages are not imported.

    Attributes:
        name: Name on the command line.
        make: Makes a simulator of a task, with some of the cameras.
        tasks: Task name to instruction.
        default_tasks: Tasks that are evaluated unless the user or the policy names others.
        packages: PyPI names of the packages whose versions decide what happens in an episode.
        extra: Extra of oatkit that installs these packages.
        fps: Steps a second.
        max_steps: Number of steps after which an episode is over.
        action_low: Lowest action, (A,).
        action_high: Highest action, (A,).
        cameras: Camera name to what that camera sees; videos show the first one.
        task_suffix: What the simulator's own names of tasks end with; users may leave it out.
        make_without_shadows: The same as `make` for images without shadows, which render faster;
            None where images have no shadows.
        works_with: Package to how the versions begin that it works with, such as "3.3"; any version
            of the packages that are not named.
    """

    name: str
    make: Make
    tasks: dict[str, str]
    default_tasks: tuple[str, ...]
    packages: tuple[str, ...]
    extra: str
    fps: int
    max_steps: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    cameras: dict[str, str]
    task_suffix: str = ""
    make_without_shadows: Make | None = None
    works_with: Mapping[str, str] = field(default_factory=dict)

    def task_name(self, task: str) -> str:
        """The key of `task` in `tasks`; an unknown task is an error."""
        name = task.removesuffix(self.task_suffix)
        if name not in self.tasks:
            raise ValueError(unknown_name(f"{self.name} task", task, self.tasks))
        return name

    def checked_cameras(self, cameras: Cameras) -> dict[str, ImageSize]:
        """The asked cameras; an unknown name or a size below 1 is an error."""
        for name, (height, width) in cameras.items():
            if name not in self.cameras:
                raise ValueError(unknown_name(f"camera of {self.name}", name, self.cameras))
            if height < 1 or width < 1:
                raise ValueError(
                    f"the image of camera {name!r} is {height} x {width}, expected height and "
                    "width of 1 or more"
                )
        return dict(cameras)

    def package_versions(self) -> dict[str, str]:
        """Package to its version; where one is missing or does not fit, the error says so."""
        try:
            found = {name: version(name) for name in self.packages}
        except PackageNotFoundError as error:
            raise MissingExtraError(self.extra) from error
        if misfits := self.misfits(found):
            raise OatkitError(
                f"{self.name} does not work here: {misfits}; pip install 'oatkit[{self.extra}]' "
                "in an environment of its own"
            )
        return found

    def misfits(self, found: Mapping[str, str]) -> str:
        """What to say of the packages whose versions do not fit; empty where all of them do."""
        return ", ".join(
            f"{name} is {found[name]}, expected {beginning}"
            for name, beginning in self.works_with.items()
            if name in found and not f"{found[name]}.".startswith(f"{beginning}.")
        )

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


def require_cameras(cameras: Cameras) -> None:
    """Raise where `render` has no camera to show."""
    if not cameras:
        raise ValueError("to render, make the simulator with cameras={name: (height, width)}")
