"""Demonstrations from MetaWorld's scripted experts, written as a LeRobot v3.0 dataset.

make_metaworld(Path("demonstrations"), Demonstrations(("box-close",), episodes=50))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from oatkit.data.source import Feature
from oatkit.envs.metaworld import ACTION_DIM, CAMERA, METAWORLD, PAPER_TASKS, scripted_expert
from oatkit.jobs.demonstration_job import (
    DemonstrationJob,
    Wanted,
    checked_tasks,
    common_plan,
)
from oatkit.jobs.demonstration_shards import make_dataset
from oatkit.jobs.expert_episodes import ACTION_KEY, Teacher
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

TEACHER = Teacher(
    METAWORLD,
    scripted_expert,
    features={
        STATE: Feature((4,), names=("x", "y", "z", "gripper")),
        ENVIRONMENT_STATE: Feature((39,)),
        ACTION_KEY: Feature((ACTION_DIM,), names=("x", "y", "z", "gripper")),
    },
    cameras=(CAMERA,),
    robot_type="sawyer",
    last_push=110,
)


@dataclass(frozen=True)
class Demonstrations(Wanted):
    """What decides a dataset of demonstrations."""

    tasks: tuple[str, ...] = PAPER_TASKS
    """Task names, such as box-close, or `all` for all 50. The default is the paper's four."""
    images: bool = False
    """Record the corner2 camera too."""


def make_metaworld(
    out: Path,
    wanted: Demonstrations = Demonstrations(),
    *,
    workers: int | None = None,
    show_progress: bool = False,
) -> Path:
    """Make a dataset of demonstrations, or complete it, and return its path.

    A finished dataset of the same demonstrations is left as it is. Anything else at `out`, or an
    unfinished dataset of others, is a `DatasetError` and nothing is touched.

    Args:
        out: Folder of the dataset.
        wanted: What decides the dataset.
        workers: Number of worker processes, one per core by default; it changes nothing in the
            dataset.
        show_progress: Whether to show a progress bar.
    """
    return make_dataset(metaworld_job(wanted), out, workers=workers, show_progress=show_progress)


def metaworld_job(wanted: Demonstrations) -> DemonstrationJob:
    """The dataset to be made; a wrong setting is a `ValueError`."""
    wanted = replace(wanted, tasks=checked_tasks(wanted, METAWORLD))
    return DemonstrationJob(wanted, TEACHER, common_plan(wanted) | METAWORLD.package_versions())
