"""What a dataset of demonstrations is: what is asked for, checked, and who demonstrates it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from oatkit.envs.simulator import SimulatorKind, demonstration_seed
from oatkit.jobs.expert_episodes import Teacher


@dataclass(frozen=True)
class Wanted:
    """What decides a dataset of demonstrations, whatever the simulator."""

    tasks: tuple[str, ...] = ()
    """Task names, or `all`."""
    episodes: int = 50
    """Successful episodes per task."""
    seed: int = 0
    """Seed of goals, start poses and noise. No seed has a goal or pose that an evaluation uses."""
    noise: float = 0.0
    """Standard deviation of noise on the expert's actions in [-1, 1]; recorded as executed."""
    clean_labels: bool = False
    """Record what the expert would have done without the noise, instead of what was executed."""
    pushes: int = 0
    """Largest number of pushes in an episode: for about eight steps a random action is executed and
    the expert's own is recorded. The data then show how to come back, also from a missed grasp."""
    images: bool = False
    """Record what cameras see too."""
    image_size: tuple[int, int] = (480, 480)
    """Height and width of the images."""
    shadows: bool = True
    """Whether images have shadows and reflections; without them rendering takes less than half the
    time."""


@dataclass(frozen=True)
class DemonstrationJob:
    """A dataset to be made.

    Attributes:
        wanted: What is asked for, checked.
        teacher: Simulator and expert.
        plan: All that decides what is in the dataset, as JSON values.
    """

    wanted: Wanted
    teacher: Teacher
    plan: dict[str, Any]

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Height and width of the images; None for no images."""
        return self.wanted.image_size if self.wanted.images else None


def checked_tasks(wanted: Wanted, simulator: SimulatorKind) -> tuple[str, ...]:
    """The asked tasks by their names; a wrong setting of `wanted` is a `ValueError`."""
    asked = tuple(simulator.tasks) if wanted.tasks == ("all",) else wanted.tasks
    tasks = tuple(simulator.task_name(task) for task in asked)
    if not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(f"tasks are [{', '.join(tasks)}], expected one or more, each once")
    if wanted.episodes < 1:
        raise ValueError(f"episodes is {wanted.episodes}, expected 1 or more")
    if not 0 <= wanted.noise < math.inf:
        raise ValueError(f"noise is {wanted.noise}, expected a finite number of 0 or more")
    if wanted.clean_labels and not wanted.noise:
        raise ValueError("clean_labels needs noise: without it, the labels are clean already")
    if wanted.pushes < 0:
        raise ValueError(f"pushes is {wanted.pushes}, expected 0 or more")
    if wanted.images and any(side < 2 or side % 2 for side in wanted.image_size):
        raise ValueError(f"image_size is {wanted.image_size}, expected two even numbers for video")
    default = type(wanted)()
    has_image_options = (wanted.image_size, wanted.shadows) != (default.image_size, default.shadows)
    if has_image_options and not wanted.images:
        warnings.warn("image_size and shadows have no effect without images", stacklevel=4)
    demonstration_seed(wanted.seed, attempt=0)
    return tasks


def common_plan(wanted: Wanted) -> dict[str, Any]:
    """What of the settings decides a dataset, as JSON values."""
    plan: dict[str, Any] = {
        "tasks": list(wanted.tasks),
        "episodes": wanted.episodes,
        "seed": wanted.seed,
        "noise": wanted.noise,
        "images": wanted.images,
    }
    if wanted.clean_labels:
        plan["clean_labels"] = True
    if wanted.pushes:
        plan["pushes"] = wanted.pushes
    if wanted.images:
        plan |= {"image_size": list(wanted.image_size), "shadows": wanted.shadows}
    return plan
