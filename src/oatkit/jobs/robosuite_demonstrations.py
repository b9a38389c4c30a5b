"""Demonstrations of robosuite's tasks, written as a LeRobot v3.0 dataset.

    make_robosuite(Path("demonstrations"), RobosuiteDemonstrations(("lift", "can"), episodes=50))

They come from scripted experts, or from recorded demonstrations that are replayed from other start
poses (`robosuite_replay.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from oatkit.data.source import Feature
from oatkit.envs.robosuite import (
    ACTION_DIM,
    CAMERAS,
    ENVIRONMENT_STATE_DIM,
    PAPER_TASKS,
    ROBOSUITE,
    STATE_DIM,
)
from oatkit.envs.robosuite_experts import scripted_expert
from oatkit.jobs.demonstration_job import (
    DemonstrationJob,
    Wanted,
    checked_tasks,
    common_plan,
)
from oatkit.jobs.demonstration_shards import make_dataset
from oatkit.jobs.expert_episodes import ACTION_KEY, Teacher
from oatkit.jobs.robosuite_recordings import recorded_task
from oatkit.jobs.robosuite_replay import recorded_expert
from oatkit.storage.digest import digest
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

TEACHER = Teacher(
    ROBOSUITE,
    scripted_expert,
    features={
        STATE: Feature(
            (STATE_DIM,), names=("x", "y", "z", "qx", "qy", "qz", "qw", "finger1", "finger2")
        ),
        ENVIRONMENT_STATE: Feature((ENVIRONMENT_STATE_DIM,)),
        ACTION_KEY: Feature((ACTION_DIM,), names=("x", "y", "z", "rx", "ry", "rz", "gripper")),
    },
    cameras=tuple(CAMERAS),
    robot_type="panda",
    last_push=60,
)


@dataclass(frozen=True)
class RobosuiteDemonstrations(Wanted):
    """What decides a dataset of demonstrations in robosuite."""

    tasks: tuple[str, ...] = PAPER_TASKS
    """Task names, such as lift, or `all` for all five. The default is the paper's three."""
    images: bool = False
    """Record both cameras too: agentview and robot0_eye_in_hand."""
    image_size: tuple[int, int] = (84, 84)
    """Height and width of the images."""
    from_demos: Path | None = None
    """HDF5 file of robosuite or RoboMimic with recorded demonstrations of one task, which take the
    expert's place: they are moved to new start poses and replayed, and successes are kept."""


def make_robosuite(
    out: Path,
    wanted: RobosuiteDemonstrations = RobosuiteDemonstrations(),
    *,
    workers: int | None = None,
    show_progress: bool = False,
) -> Path:
    """Make a dataset of demonstrations, or complete it, and return its path.

    Args:
        out: Folder of the dataset.
        wanted: What decides the dataset.
        workers: Number of worker processes, one per core by default; it changes nothing in the
            dataset.
        show_progress: Whether to show a progress bar.
    """
    return make_dataset(robosuite_job(wanted), out, workers=workers, show_progress=show_progress)


def robosuite_job(wanted: RobosuiteDemonstrations) -> DemonstrationJob:
    """The dataset to be made; a wrong setting is a `ValueError`."""
    teacher, source, path = TEACHER, {}, wanted.from_demos
    if path is not None:
        wanted = _of_recorded_task(wanted, path)
        teacher = replace(TEACHER, expert=partial(recorded_expert, path))
        source = {"from_demos": digest(path.read_bytes())}
    wanted = replace(wanted, tasks=checked_tasks(wanted, ROBOSUITE))
    plan = common_plan(wanted) | source | ROBOSUITE.package_versions()
    return DemonstrationJob(wanted, teacher, plan)


def _of_recorded_task(wanted: RobosuiteDemonstrations, path: Path) -> RobosuiteDemonstrations:
    """What is wanted, with the task of a file unless another one is named."""
    if wanted.pushes:
        raise ValueError(
            "--pushes needs a scripted expert, which finds back: leave --from-demos out"
        )
    task = recorded_task(path)
    asked = tuple(ROBOSUITE.task_name(name) for name in wanted.tasks)
    if asked not in ((task,), RobosuiteDemonstrations.tasks):
        raise ValueError(
            f"{path} has demonstrations of {task!r}, and --tasks asks for {', '.join(asked)}: "
            "leave --tasks out"
        )
    return replace(wanted, tasks=(task,))
