"""Demonstrations from MetaWorld's scripted experts, written as a LeRobot v3.0 dataset.

    oatkit data make metaworld --tasks box-close coffee-pull --episodes 50 --out demonstrations

Every attempt is a function of the options and its number alone, and the episodes of a task
are its first successful attempts, so the number of workers changes nothing. Finished attempts
are kept beside the dataset until it is whole:

    demonstrations.partial/plan.json               the options
    demonstrations.partial/box-close/00003.npz     a success (and 00003.mp4 with images)
    demonstrations.partial/box-close/00004.failed
    demonstrations.partial/dataset                 being assembled, then renamed to `out`

Each file appears whole or not at all: a run that is killed at any moment is completed by the
same command.

Shape letters: T step, E environment state (39), A action (4).
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from tyro.conf import arg

from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.envs.metaworld import (
    ACTION_DIM,
    CAMERA,
    FPS,
    METAWORLD,
    PAPER_TASKS,
    TASKS,
    MetaWorld,
    scripted_expert,
)
from oatkit.envs.simulator import ENVIRONMENT_STATE_KEY, STATE_KEY, demonstration_seed
from oatkit.errors import DatasetError, MissingExtraError, OatkitError
from oatkit.jobs.worker_pool import worker_pool
from oatkit.storage.atomic_write import ASIDE, written_whole

STEPS_AFTER_SUCCESS = 5
ACTION_KEY = "action"
CAMERA_KEY = f"observation.images.{CAMERA}"
FEATURES = {
    STATE_KEY: Feature((4,), names=("x", "y", "z", "gripper")),
    ENVIRONMENT_STATE_KEY: Feature((39,)),
    ACTION_KEY: Feature((ACTION_DIM,), names=("x", "y", "z", "gripper")),
}
PLAN_PATH = "plan.json"
PLAN_PATH_IN_DATASET = "meta/oatkit_plan.json"
LOCK = "lock"

Columns = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class MakeMetaWorld:
    """Make demonstrations with MetaWorld's scripted experts, as a LeRobot v3.0 dataset.

    Example:
        oatkit data make metaworld --tasks box-close door-open --episodes 10 --out out/metaworld
    """

    out: Path
    """Where to write the dataset."""
    tasks: tuple[str, ...] = PAPER_TASKS
    """Task names, such as box-close, or `all` for all 50. The default is the paper's four."""
    episodes: int = 50
    """Successful episodes per task."""
    seed: int = 0
    """Decides the goals and the noise. No seed has a goal that an evaluation uses."""
    noise: float = 0.0
    """Standard deviation of noise on the expert's actions in [-1, 1]; recorded as executed."""
    images: bool = False
    """Record the corner2 camera too."""
    image_size: tuple[int, int] = (480, 480)
    """Height and width of the images."""
    shadows: Annotated[bool, arg(help_behavior_hint="(shadows by default)")] = True
    """Render without shadows, in a third of the time."""
    workers: int | None = None
    """Worker processes, by default one per core. They do not change the dataset."""


def make_metaworld(config: MakeMetaWorld, *, show_progress: bool = True) -> Path:
    """Make the dataset that `config` describes, or complete it, and return its path.

    A finished dataset of the same options is left as it is. Anything else at `out`, or an
    unfinished dataset of other options, is a `DatasetError` and nothing is touched.
    """
    config = _checked(config)
    plan = _plan(config)
    partial = config.out.with_name(f"{config.out.name}.partial")
    console = Console(stderr=True, quiet=not show_progress)
    is_empty = config.out.is_dir() and not any(config.out.iterdir())
    if config.out.exists() and not is_empty:
        _require_plan(config.out, PLAN_PATH_IN_DATASET, plan)
        console.print(f"{config.out} is already finished", highlight=False, markup=False)
        if _read_plan(partial / PLAN_PATH) == plan:
            _remove(partial)
        return config.out
    partial.mkdir(parents=True, exist_ok=True)
    with _sole_use_of(partial), _stops_explained(partial):
        _start_or_continue(partial, plan)
        attempts = _Attempts(config, partial)
        with _progress(config, attempts, console) as show:
            _make_attempts(config, partial, attempts, show)
            show("writing")
            _assemble(config, partial, attempts, plan)
        _remove(partial)
    return config.out


# The options


def _checked(config: MakeMetaWorld) -> MakeMetaWorld:
    """`config` with canonical task names; a wrong option is a `ValueError`."""
    asked = tuple(TASKS) if config.tasks == ("all",) else config.tasks
    tasks = tuple(METAWORLD.task_name(task) for task in asked)
    if not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(f"tasks are [{', '.join(tasks)}], expected one or more, each once")
    for name, value in (("episodes", config.episodes), ("workers", config.workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}, expected 1 or more")
    if not 0 <= config.noise < math.inf:
        raise ValueError(f"noise is {config.noise}, expected a finite number of 0 or more")
    if config.images and any(side < 2 or side % 2 for side in config.image_size):
        raise ValueError(f"image_size is {config.image_size}, expected two even numbers for video")
    default = MakeMetaWorld.image_size, MakeMetaWorld.shadows
    if not config.images and (config.image_size, config.shadows) != default:
        warnings.warn("image_size and shadows have no effect without images", stacklevel=3)
    demonstration_seed(config.seed, attempt=0)
    has_name = config.out.name not in ("", "..")
    return replace(config, tasks=tasks, out=config.out if has_name else config.out.resolve())


def _plan(config: MakeMetaWorld) -> dict[str, Any]:
    """All that decides what is in the dataset."""
    plan: dict[str, Any] = {
        "tasks": list(config.tasks),
        "episodes": config.episodes,
        "seed": config.seed,
        "noise": config.noise,
        "images": config.images,
    }
    if config.images:
        plan |= {"image_size": list(config.image_size), "shadows": config.shadows}
    try:
        return plan | {package: version(package) for package in ("metaworld", "mujoco")}
    except PackageNotFoundError as error:
        raise MissingExtraError("metaworld") from error


def _require_plan(folder: Path, plan_path: str, plan: dict[str, Any]) -> None:
    found = _read_plan(folder / plan_path)
    if found is None:
        raise DatasetError(
            f"{folder} exists and is not from this command; choose another --out or remove it"
        )
    different = [
        f"{key} was {found.get(key)}, is {plan.get(key)}"
        for key in {**found, **plan}
        if found.get(key) != plan.get(key)
    ]
    if different:
        raise DatasetError(
            f"{folder} was made with other options ({'; '.join(different)}): "
            "use those, choose another --out, or remove it"
        )


def _read_plan(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise DatasetError(f"{path} is no plan of this command; remove its folder") from error


# The folder of finished attempts


def _start_or_continue(partial: Path, plan: dict[str, Any]) -> None:
    for leftover in partial.rglob(f"{ASIDE}*"):
        leftover.unlink()
    if all(path.name == LOCK for path in partial.iterdir()):
        with written_whole(partial / PLAN_PATH) as path:
            path.write_text(json.dumps(plan, indent=2))
    _require_plan(partial, PLAN_PATH, plan)


@contextmanager
def _sole_use_of(partial: Path) -> Iterator[None]:
    """Hold a lock that the system drops when this process ends, however it ends."""
    with (partial / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(os.fstat(lock.fileno()), (partial / LOCK).stat())
        except OSError:  # held by another, or removed by it a moment ago
            is_current = False
        if not is_current:
            raise DatasetError(f"another process is working in {partial}: let it end")
        yield


def _remove(partial: Path) -> None:
    """Delete the folder, the plan last, so that what a kill leaves is still recognized."""
    for folder in [path for path in partial.iterdir() if path.is_dir()]:
        shutil.rmtree(folder)
    shutil.rmtree(partial)


def _attempt_path(partial: Path, task: str, number: int, suffix: str) -> Path:
    return partial / task / f"{number:05d}.{suffix}"


class _Attempts:
    """What became of the attempts at each task, and which comes next.

    An attempt is started only if those that succeeded and those under way are too few even
    should all of them succeed. So none is made in vain.
    """

    def __init__(self, config: MakeMetaWorld, partial: Path) -> None:
        self._num_wanted = config.episodes
        self._limit = max(20, 5 * config.episodes)
        self._is_success = {task: _read_results(partial / task) for task in config.tasks}
        self._under_way: dict[str, set[int]] = {task: set() for task in config.tasks}

    def successes(self, task: str) -> list[int]:
        """The numbers of the successful attempts, in order."""
        return sorted(number for number, is_success in self._is_success[task].items() if is_success)

    @property
    def num_successes(self) -> int:
        return sum(len(self.successes(task)) for task in self._is_success)

    @property
    def num_finished(self) -> int:
        return sum(map(len, self._is_success.values()))

    def start_next(self) -> tuple[str, int] | None:
        """Task and number of the attempt to start now, if one is needed."""
        for task, under_way in self._under_way.items():
            if len(self.successes(task)) + len(under_way) >= self._num_wanted:
                continue
            number = self._lowest_free_number(task)
            if number < self._limit:
                under_way.add(number)
                return task, number
            if not under_way:
                raise DatasetError(
                    f"the expert for {task!r} succeeded in {len(self.successes(task))} of "
                    f"{self._limit} attempts, too few for {self._num_wanted} episodes: "
                    "ask for less noise or leave the task out"
                )
        return None

    def finish(self, task: str, number: int, *, is_success: bool) -> None:
        self._under_way[task].remove(number)
        self._is_success[task][number] = is_success

    def _lowest_free_number(self, task: str) -> int:
        taken = self._is_success[task].keys() | self._under_way[task]
        return next(number for number in range(len(taken) + 1) if number not in taken)


def _read_results(folder: Path) -> dict[int, bool]:
    """The number of each finished attempt, and whether it succeeded."""
    return {
        int(path.stem): suffix == "npz"
        for suffix in ("npz", "failed")
        for path in folder.glob(f"*.{suffix}")
    }


# The parent process


@contextmanager
def _stops_explained(partial: Path) -> Iterator[None]:
    """Say, when the work stops halfway, that it is not lost."""
    hint = f"finished attempts are kept in {partial}, the same command again continues"
    try:
        yield
    except BrokenProcessPool as error:
        raise OatkitError(f"a worker process died (killed, or out of memory?); {hint}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {hint}") from None


@contextmanager
def _progress(
    config: MakeMetaWorld, attempts: _Attempts, console: Console
) -> Iterator[Callable[[str], None]]:
    """A bar of the successes; call what is yielded with a word to bring it up to date."""
    columns = (
        TextColumn("{task.description:25}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} episodes"),
        TextColumn("{task.fields[attempts]} attempts"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        total = len(config.tasks) * config.episodes
        bar = progress.add_task(
            "starting",
            total=total,
            completed=attempts.num_successes,
            attempts=attempts.num_finished,
        )

        def show(word: str) -> None:
            progress.update(
                bar,
                description=word,
                completed=attempts.num_successes,
                attempts=attempts.num_finished,
            )

        yield show


def _make_attempts(
    config: MakeMetaWorld, partial: Path, attempts: _Attempts, show: Callable[[str], None]
) -> None:
    """Let worker processes make attempts until every task has its successes."""
    for task in config.tasks:
        (partial / task).mkdir(exist_ok=True)
    num_workers = min(config.workers or os.cpu_count() or 1, len(config.tasks) * config.episodes)
    with worker_pool(num_workers) as pool:
        under_way: dict[Future[bool], tuple[str, int]] = {}
        while True:
            while len(under_way) < num_workers and (attempt := attempts.start_next()):
                under_way[pool.submit(_make_attempt, config, partial, *attempt)] = attempt
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task, number = under_way.pop(future)
                attempts.finish(task, number, is_success=future.result())
                show(task)


def _assemble(
    config: MakeMetaWorld, partial: Path, attempts: _Attempts, plan: dict[str, Any]
) -> None:
    """Write the dataset aside, whole, and move it to its place."""
    root = partial / "dataset"
    if root.exists():
        shutil.rmtree(root)
    cameras = {CAMERA_KEY: config.image_size} if config.images else {}
    writer = LeRobotWriter(root, fps=FPS, features=FEATURES, cameras=cameras, robot_type="sawyer")
    for task in config.tasks:
        for number in attempts.successes(task):
            videos = {camera: _attempt_path(partial, task, number, "mp4") for camera in cameras}
            columns = _read_attempt(_attempt_path(partial, task, number, "npz"))
            writer.add_episode(columns, task=TASKS[task], videos=videos)
    writer.close()
    (root / PLAN_PATH_IN_DATASET).write_text(json.dumps(plan, indent=2))
    root.rename(config.out)


def _read_attempt(path: Path) -> Columns:
    try:
        with np.load(path) as columns:
            return {key: columns[key] for key in FEATURES}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{path} is damaged; remove it, and the same command again makes it anew"
        ) from error


# The worker processes


def _make_attempt(config: MakeMetaWorld, partial: Path, task: str, number: int) -> bool:
    """Try once, leave the result in `partial`, and say whether it is a success."""
    environment = _environment(task, config.image_size if config.images else None, config.shadows)
    goal_seed = demonstration_seed(config.seed, number)
    columns = _demonstrate(environment, goal_seed, noise=config.noise)
    if columns is None:
        _attempt_path(partial, task, number, "failed").touch()
        return False
    if config.images:
        with written_whole(_attempt_path(partial, task, number, "mp4")) as path:
            _film(environment, goal_seed, columns[ACTION_KEY], config.image_size, path)
    with written_whole(_attempt_path(partial, task, number, "npz")) as path:
        np.savez(path, **columns)  # type: ignore[arg-type]
    return True


@lru_cache(maxsize=1)
def _environment(task: str, image_size: tuple[int, int] | None, shadows: bool) -> MetaWorld:
    return MetaWorld(task, image_size=image_size, shadows=shadows)


def _demonstrate(environment: MetaWorld, goal_seed: int, *, noise: float) -> Columns | None:
    """One episode of the expert until some steps after success; None if it fails.

    Returns:
        For every feature its rows, (T, size). Row t has the observation before action t.
    """
    expert = scripted_expert(environment.task)
    entropy = [goal_seed, zlib.crc32(environment.task.encode())]
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    rows: list[Columns] = []
    num_steps = environment.max_steps
    is_solved = False
    observation = environment.reset(goal_seed)
    while len(rows) < num_steps:
        action_A = expert(observation[ENVIRONMENT_STATE_KEY])
        action_A = (action_A + noise * rng.standard_normal(ACTION_DIM)).clip(-1, 1)
        rows.append({**observation, ACTION_KEY: action_A.astype(np.float32)})
        result = environment.step(rows[-1][ACTION_KEY])
        if result.is_success and not is_solved:
            is_solved = True
            num_steps = min(num_steps, len(rows) + STEPS_AFTER_SUCCESS)
        observation = result.observation
    if not is_solved:
        return None
    return {key: np.stack([row[key] for row in rows]) for key in FEATURES}


def _film(
    environment: MetaWorld,
    goal_seed: int,
    action_TA: NDArray[np.float32],
    image_size: tuple[int, int],
    path: Path,
) -> None:
    """Play the recorded actions again for the camera, so that failures are never rendered."""
    from oatkit.data.video import VideoWriter

    height, width = image_size
    environment.reset(goal_seed)
    with VideoWriter(path, fps=FPS, height=height, width=width) as video:
        for action_A in action_TA:
            video.add(environment.render())
            environment.step(action_A)
