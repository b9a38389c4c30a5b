"""Tasks of a dataset of demonstrations as units of work, made by worker processes.

Every attempt is a function of what is asked for and its number alone, and the episodes of a task
are its first successful attempts, so the number of workers changes nothing. Which attempts those
are is known only when they have been made: so a unit is a task with all its episodes, not one
episode. Finished attempts are kept (`demonstration_attempts.py`), so that a unit goes on, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial as bound
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.dataset_folder import make_in_place
from oatkit.jobs.demonstration_attempts import Attempts, attempt_path
from oatkit.jobs.demonstration_job import DemonstrationJob
from oatkit.jobs.episode_bar import Show, episode_bar
from oatkit.jobs.expert_episodes import Teacher, make_attempt
from oatkit.jobs.worker_pool import worker_pool
from oatkit.shards import ShardPlan
from oatkit.shards.unit_arrays import read_arrays
from oatkit.types.observation_keys import IMAGES

PLAN_PATH_IN_DATASET = "meta/oatkit_plan.json"


class DemonstrationWork:
    """The tasks of a dataset; see `oatkit.shards.Work`.

    Args:
        job: What is made.
        workers: Number of worker processes, one per core by default; it changes nothing in the
            dataset.
        console: Where to show a bar; nothing is shown by default.
    """

    def __init__(
        self,
        job: DemonstrationJob,
        *,
        workers: int | None = None,
        console: Console | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is {workers}, expected 1 or more")
        self._job = job
        self._workers = workers or num_cores()
        self._console = console or Console(quiet=True)
        self.name = f"data make {job.teacher.simulator.name}"
        self.settings: dict[str, Any] = job.plan
        self.facts: dict[str, Any] = {}

    def units(self) -> Sequence[str]:
        return self._job.wanted.tasks

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        num_wanted = self._job.wanted.episodes
        attempts = Attempts(folder, keys, num_wanted)
        with episode_bar(self._console, len(keys) * num_wanted, "attempts") as show:
            for task in self._complete(keys, folder, attempts, show):
                yield task, {"successes": attempts.successes(task)}

    def _complete(
        self, tasks: Sequence[str], folder: Path, attempts: Attempts, show: Show
    ) -> Iterator[str]:
        """Let worker processes make attempts; gives each task when it has its successes."""
        for task in tasks:
            (folder / task).mkdir(exist_ok=True)
        yield from filter(attempts.is_complete, tasks)
        attempt_once = self._attempt_once(folder)
        num_workers = min(self._workers, len(tasks) * self._job.wanted.episodes)
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
                    show(task, attempts.num_successes, attempts.num_finished)
                    if attempts.is_complete(task):
                        yield task

    def _attempt_once(self, folder: Path) -> bound[bool]:
        wanted = self._job.wanted
        return bound(
            make_attempt,
            folder,
            teacher=self._job.teacher,
            seed=wanted.seed,
            noise=wanted.noise,
            clean_labels=wanted.clean_labels,
            pushes=wanted.pushes,
            image_size=self._job.image_size,
            shadows=wanted.shadows,
        )


def merge_demonstrations(
    teacher: Teacher, plan: ShardPlan, results: dict[str, Any], folder: Path
) -> Path:
    """Join attempts into the dataset that `oatkit data make` writes, given the simulator."""
    root = folder / "dataset"
    if root.exists():
        shutil.rmtree(root)
    size = plan.settings.get("image_size")
    cameras = dict.fromkeys(teacher.cameras, tuple(size)) if size else {}
    writer = LeRobotWriter(
        root,
        fps=teacher.simulator.fps,
        features=dict(teacher.features),
        cameras={f"{IMAGES}{camera}": camera_size for camera, camera_size in cameras.items()},
        robot_type=teacher.robot_type,
    )
    for task, result in results.items():
        for number in result["successes"]:
            columns = read_arrays(attempt_path(folder, task, number, "npz"), folder, task)
            videos = {
                f"{IMAGES}{camera}": attempt_path(folder, task, number, f"{camera}.mp4")
                for camera in cameras
            }
            writer.add_episode(columns, task=teacher.simulator.tasks[task], videos=videos)
    writer.close()
    (root / PLAN_PATH_IN_DATASET).write_text(json.dumps(plan.settings, indent=2))
    return root


def make_dataset(
    job: DemonstrationJob, out: Path, *, workers: int | None = None, show_progress: bool = False
) -> Path:
    """Make a dataset of demonstrations, or complete it, and return its path.

    Args:
        job: What is made.
        out: Folder of the dataset; see `make_in_place`.
        workers: Number of worker processes, one per core by default; it changes nothing in the
            dataset.
        show_progress: Whether to show a progress bar.
    """
    console = Console(stderr=True, quiet=not show_progress)
    work = DemonstrationWork(job, workers=workers, console=console)
    merge = bound(merge_demonstrations, job.teacher)
    return make_in_place(work, merge, out, PLAN_PATH_IN_DATASET, console)
