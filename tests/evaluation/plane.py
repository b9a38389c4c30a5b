"""A fast simulator, true to the protocol, whose processes start without torch."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oatkit.envs.simulator import (
    Cameras,
    Observation,
    SimulatorKind,
    StepResult,
    checked_action,
)
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

HORIZON, MAX_STEPS = 8, 30
TASKS = {"near": "Go to the near goal.", "far": "Go to the far goal.", "never": "Go nowhere."}


class Plane:
    """A point goes to a goal: actions are velocities, and the score is how near it is."""

    def __init__(
        self,
        task: str,
        cameras: Cameras | None = None,
        *,
        dies: Path | None = None,
        sleeps: Path | None = None,
    ) -> None:
        self._task = task
        self._cameras = PLANE.checked_cameras(cameras or {})
        self._dies = dies
        self._sleeps = sleeps
        self._steps = 0

    def reset(self, seed: int) -> Observation:
        rng = np.random.default_rng(seed)
        self._at = np.zeros(2, np.float32)
        reach = {"near": 1.0, "far": 2.5, "never": 1.0}[self._task]
        self._goal = (reach * rng.uniform(0.5, 1, 2)).astype(np.float32)
        self._steps = 0
        return self._observe()

    def step(self, action: Any) -> StepResult:
        self._at = self._at + np.float32(0.1) * checked_action(action, PLANE)
        self._steps += 1
        if self._steps == 5 and _is_first(self._dies):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._steps == 5 and _is_first(self._sleeps):
            time.sleep(600)
        distance = float(np.abs(self._at - self._goal).max())
        is_success = self._task != "never" and distance < 0.06
        score = max(0.0, 1 - distance)
        return StepResult(self._observe(), is_success, self._steps == MAX_STEPS, score)

    def render(self) -> dict[str, np.ndarray]:
        """Grey that says how many steps were taken, from below brighter by 100."""
        assert self._cameras, "rendered without need"
        return {
            camera: np.full((*size, 3), self._steps + 100 * (camera == "below"), np.uint8)
            for camera, size in self._cameras.items()
        }

    def close(self) -> None:
        pass

    def _observe(self) -> Observation:
        return {STATE: self._at.copy(), ENVIRONMENT_STATE: self._goal.copy()}


def _is_first(flag: Path | None) -> bool:
    """Whether no process made the file before; of several at once only one is the first."""
    try:
        if flag is not None:
            flag.touch(exist_ok=False)
    except FileExistsError:
        return False
    return flag is not None


class AlwaysDying(Plane):
    def step(self, action: Any) -> StepResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class AlwaysSleeping(Plane):
    def step(self, action: Any) -> StepResult:
        time.sleep(600)
        raise AssertionError


class Broken(Plane):
    def reset(self, seed: int) -> Observation:
        raise RuntimeError(f"no scene for seed {seed}")


class Lacking(Plane):
    def __init__(self, task: str, cameras: Cameras | None = None) -> None:
        raise ModuleNotFoundError("No module named 'gravity'", name="gravity")


PLANE = SimulatorKind(
    name="plane",
    make=Plane,
    tasks=TASKS,
    default_tasks=("near", "far"),
    packages=("numpy",),
    extra="data",
    fps=10,
    max_steps=MAX_STEPS,
    action_low=(-1.0, -1.0),
    action_high=(1.0, 1.0),
    cameras={"top": "The plane from above.", "below": "The plane from below."},
)


def dying_once(flag: Path) -> Any:
    """Makes simulators of which the first to come so far kills its process."""
    return partial(Plane, dies=flag)


def sleeping_once(flag: Path) -> Any:
    """Makes simulators of which the first to come so far never answers."""
    return partial(Plane, sleeps=flag)
