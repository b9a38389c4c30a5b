"""A dataset of demonstrations, made by worker processes and written as LeRobot v3.0.

Every attempt is a function of what is asked for and its number alone, and the episodes of a task
are its first successful attempts, so the number of workers changes nothing. Finished attempts
are kept beside the dataset until it is complete (`demonstration_attempts.py`), so that a run that
is killed at any moment is completed by the same call.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial as bound
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.envs.simulator import SimulatorKind, demonstration_seed
from oatkit.errors import OatkitError
from oatkit.jobs.demonstration_attempts import (
    PLAN_PATH,
    Attempts,
    attempt_path,
    read_plan,
    remove_folder,
    require_plan,
    sole_use_of,
    start_or_continue,
)
from oatkit.jobs.episode_bar import episode_bar
from oatkit.jobs.expert_episodes import Teacher, make_attempt, read_attempt
from oatkit.jobs.worker_pool import worker_pool
from oatkit.types.observation_keys import IMAGES

PLAN_PATH_IN_DATASET = "meta/oatkit_plan.json"


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


def make_dataset(
    job: DemonstrationJob, out: Path, *, workers: int | None = None, show_progress: bool = False
) -> Path:
    """Make a dataset of demonstrations, or complete it, and return its path.

    A finished dataset of the same demonstrations is left as it is. Anything else at `out`, or an
    unfinished dataset of others, is a `DatasetError` and nothing is touched.

    Args:
        job: What is made.
        out: Folder of the dataset.
        workers: Number of worker processes, one per core by default; it changes nothing in the
            dataset.
        show_progress: Whether to show a progress bar.
    """
    wanted, plan, out = job.wanted, job.plan, _named(out)
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, expected 1 or more")
    partial = out.with_name(f"{out.name}.partial")
    console = Console(stderr=True, quiet=not show_progress)
    if out.exists() and not _is_empty(out):
        require_plan(out, PLAN_PATH_IN_DATASET, plan)
        console.print(f"{out} is already finished", highlight=False, markup=False, soft_wrap=True)
        if read_plan(partial / PLAN_PATH) == plan:
            remove_folder(partial)
        return out
    partial.mkdir(parents=True, exist_ok=True)
    with sole_use_of(partial), _stops_explained(partial):
        start_or_continue(partial, plan)
        attempts = Attempts(partial, wanted.tasks, wanted.episodes)
        total = len(wanted.tasks) * wanted.episodes
        with episode_bar(console, total, "attempts") as show:

            def show_attempts(last: str) -> None:
                show(last, attempts.num_successes, attempts.num_finished)

            show_attempts("starting")
            num_workers = workers or os.cpu_count() or 1
            make_attempts(job, partial, attempts, num_workers, show_attempts)
            show_attempts("writing")
            assemble_dataset(job, partial, attempts).rename(out)
        remove_folder(partial)
    return out


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


def _named(out: Path) -> Path:
    """The path with a name of its own, which `.` and `..` do not have."""
    return out if out.name not in ("", "..") else out.resolve()


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


@contextmanager
def _stops_explained(partial: Path) -> Iterator[None]:
    """Say how to go on when the work stops halfway."""
    hint = f"finished attempts are kept in {partial}, the same command again continues"
    try:
        yield
    except BrokenProcessPool as error:
        raise OatkitError(f"a worker process died (killed, or out of memory?); {hint}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {hint}") from None


def make_attempts(
    job: DemonstrationJob,
    partial: Path,
    attempts: Attempts,
    num_workers: int,
    show: Callable[[str], None],
) -> None:
    """Let worker processes make attempts until every task has its successes."""
    wanted = job.wanted
    for task in wanted.tasks:
        (partial / task).mkdir(exist_ok=True)
    attempt_once = bound(
        make_attempt,
        partial,
        teacher=job.teacher,
        seed=wanted.seed,
        noise=wanted.noise,
        clean_labels=wanted.clean_labels,
        pushes=wanted.pushes,
        image_size=job.image_size,
        shadows=wanted.shadows,
    )
    num_workers = min(num_workers, len(wanted.tasks) * wanted.episodes)
    with worker_pool(num_workers) as pool:
        under_way: dict[Future[bool], tuple[str, int]] = {}
        while True:
            while len(under_way) < num_workers and (attempt := attempts.start_next()):
                under_way[pool.submit(attempt_once, *attempt)] = attempt
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task, number = under_way.pop(future)
                attempts.finish(task, number, is_success=future.result())
                show(task)


def assemble_dataset(job: DemonstrationJob, partial: Path, attempts: Attempts) -> Path:
    """Write the dataset among the attempts; returns its folder, to be moved to its place."""
    root = partial / "dataset"
    if root.exists():
        shutil.rmtree(root)
    teacher, size = job.teacher, job.image_size
    cameras = dict.fromkeys(teacher.cameras, size) if size else {}
    writer = LeRobotWriter(
        root,
        fps=teacher.simulator.fps,
        features=dict(teacher.features),
        cameras={f"{IMAGES}{camera}": camera_size for camera, camera_size in cameras.items()},
        robot_type=teacher.robot_type,
    )
    for task in job.wanted.tasks:
        for number in attempts.successes(task):
            videos = {
                f"{IMAGES}{camera}": attempt_path(partial, task, number, f"{camera}.mp4")
                for camera in cameras
            }
            columns = read_attempt(attempt_path(partial, task, number, "npz"), teacher.features)
            writer.add_episode(columns, task=teacher.simulator.tasks[task], videos=videos)
    writer.close()
    (root / PLAN_PATH_IN_DATASET).write_text(json.dumps(job.plan, indent=2))
    return root
