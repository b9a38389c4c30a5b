"""One episode of a scripted expert, as worker processes make it.

Shape letters: T step, A action.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.data.source import Feature
from oatkit.envs.simulator import Simulator, SimulatorKind, demonstration_seed
from oatkit.envs.simulator_table import simulator_kind
from oatkit.jobs.demonstration_attempts import attempt_path
from oatkit.shards.unit_arrays import write_arrays
from oatkit.storage.atomic_write import atomic_write
from oatkit.types.observation_keys import ENVIRONMENT_STATE

STEPS_AFTER_SUCCESS = 5
ACTION_KEY = "action"
EXECUTED = "executed action"
"""What the simulator got; the recorded action is another under a push or with clean labels."""
PUSH_STEPS = (4, 12)
"""Range of the number of steps of a push, the end excluded."""

Columns = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Teacher:
    """A simulator and who demonstrates its tasks.

    Attributes:
        simulator: Simulator with actions in [-1, 1], the last of which is the gripper's.
        expert: Task to a function from environment state to action, made anew for every episode.
        features: Columns of a demonstration.
        cameras: Cameras that are filmed where images are asked for.
        robot_type: LeRobot's name of the arm.
        last_push: First step at which no push begins: an expert takes about as long.
    """

    simulator: SimulatorKind
    expert: Callable[[str], Callable[[NDArray[np.float32]], NDArray[np.float32]]]
    features: Mapping[str, Feature]
    cameras: tuple[str, ...]
    robot_type: str
    last_push: int


def make_attempt(
    partial: Path,
    task: str,
    number: int,
    *,
    teacher: Teacher,
    seed: int,
    noise: float,
    clean_labels: bool,
    pushes: int,
    image_size: tuple[int, int] | None,
    shadows: bool,
) -> bool:
    """Try once, leave the result in a folder, and say whether it is a success.

    Args:
        partial: Folder of the attempts.
        task: Name of the task.
        number: Number of the attempt, which decides the goal together with the seed.
        teacher: Simulator and expert.
        seed: Seed of the dataset.
        noise: Standard deviation of the noise on the expert's actions.
        clean_labels: Whether the expert's action is recorded instead of the noisy one.
        pushes: Largest number of pushes.
        image_size: Height and width of the images; None for no images.
        shadows: Whether images have shadows.
    """
    cameras = teacher.cameras if image_size else ()
    environment = _environment(teacher.simulator.name, task, cameras, image_size, shadows)
    goal_seed = demonstration_seed(seed, number)
    columns = _demonstrate(
        environment, teacher, task, goal_seed, noise=noise, clean_labels=clean_labels, pushes=pushes
    )
    if columns is None:
        attempt_path(partial, task, number, "failed").touch()
        return False
    executed_TA = columns.pop(EXECUTED)
    if image_size is not None:
        paths = {camera: attempt_path(partial, task, number, f"{camera}.mp4") for camera in cameras}
        _film(environment, goal_seed, executed_TA, image_size, paths, teacher.simulator.fps)
    write_arrays(attempt_path(partial, task, number, "npz"), columns)
    return True


@lru_cache(maxsize=1)
def _environment(
    simulator: str,
    task: str,
    cameras: tuple[str, ...],
    image_size: tuple[int, int] | None,
    shadows: bool,
) -> Simulator:
    kind = simulator_kind(simulator)
    make = kind.make if shadows else kind.make_without_shadows or kind.make
    return make(task, dict.fromkeys(cameras, image_size) if image_size else {})


def _demonstrate(
    environment: Simulator,
    teacher: Teacher,
    task: str,
    goal_seed: int,
    *,
    noise: float,
    clean_labels: bool,
    pushes: int,
) -> Columns | None:
    """One episode of the expert until some steps after success; None if it fails.

    Returns:
        The rows of every feature and of `EXECUTED`, (T, size). Row t has the observation before
        action t.
    """
    expert, num_steps = teacher.expert(task), teacher.simulator.max_steps
    action_dim = len(teacher.simulator.action_low)
    entropy = [goal_seed, zlib.crc32(task.encode())]
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    pushed = _draw_pushes(
        np.random.SeedSequence([*entropy, 1]), pushes, teacher.last_push, action_dim
    )
    rows: list[Columns] = []
    is_solved = False
    observation = environment.reset(goal_seed)
    while len(rows) < num_steps:
        clean_A = expert(observation[ENVIRONMENT_STATE])
        noisy_A = (clean_A + noise * rng.standard_normal(action_dim)).clip(-1, 1)
        executed_A = pushed.get(len(rows), noisy_A)
        is_own = not clean_labels and executed_A is noisy_A
        actions = {ACTION_KEY: noisy_A if is_own else clean_A, EXECUTED: executed_A}
        rows.append({**observation, **{key: a.astype(np.float32) for key, a in actions.items()}})
        result = environment.step(rows[-1][EXECUTED])
        if result.is_success and not is_solved:
            is_solved = True
            num_steps = min(num_steps, len(rows) + STEPS_AFTER_SUCCESS)
        observation = result.observation
    if not is_solved:
        return None
    return {key: np.stack([row[key] for row in rows]) for key in (*teacher.features, EXECUTED)}


def _film(
    environment: Simulator,
    goal_seed: int,
    action_TA: NDArray[np.float32],
    image_size: tuple[int, int],
    paths: Mapping[str, Path],
    fps: int,
) -> None:
    """Play the recorded actions again for the cameras, so that failures are never rendered."""
    from oatkit.data.video import VideoWriter

    height, width = image_size
    environment.reset(goal_seed)
    with ExitStack() as files:
        videos = {}
        for camera, path in paths.items():
            place = files.enter_context(atomic_write(path))
            video = VideoWriter(place, fps=fps, height=height, width=width)
            videos[camera] = files.enter_context(video)
        for action_A in action_TA:
            for camera, image_HWC in environment.render().items():
                videos[camera].add(image_HWC)
            environment.step(action_A)


def _draw_pushes(
    entropy: np.random.SeedSequence, most: int, last: int, action_dim: int
) -> dict[int, NDArray[np.float64]]:
    """Steps to the actions that push the arm away, from no push to the largest number."""
    rng = np.random.default_rng(entropy)
    pushed: dict[int, NDArray[np.float64]] = {}
    for _ in range(rng.integers(most + 1)):
        first, count = rng.integers(last), rng.integers(*PUSH_STEPS)
        action_A = np.append(rng.uniform(-1, 1, action_dim - 1), rng.choice((-1, 1)))
        pushed |= dict.fromkeys(range(first, first + count), action_A)
    return pushed
