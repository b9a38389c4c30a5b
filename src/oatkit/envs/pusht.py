"""PushT: a disc pushes a T onto its outline, behind the same small adapter.

    environment = PushT()
    observation = environment.reset(evaluation_seed(seed=0, episode=3))
    result = environment.step([256.0, 256.0])

Positions are pixels of a 512 x 512 plane. The score is clip(coverage / 0.95, 0, 1), and more than
95 % covered is a success, as in published work; what is reported is the best of an episode.

This is the only file that imports gym-pusht.

Shape letters: A action (2), P keypoints (9), H W C image.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.envs.simulator import (
    Cameras,
    ImageSize,
    Observation,
    SimulatorKind,
    StepResult,
    checked_action,
    require_cameras,
)
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

VIEW = "The plane from above, as in published datasets."
"""The one view; some datasets call it `top`, others `image`."""
TASKS = {"pusht": "push the T onto the target"}
FPS = 10
MAX_STEPS = 300
KEYPOINTS_KEY = "observation.keypoints"
KEYPOINTS_P2 = np.array(
    [
        *([9.27, 90.03], [-60.98, -1.19], [60.91, -1.40], [-0.27, 25.54], [-14.06, 122.81]),
        *([39.00, 32.85], [-39.97, 32.72], [-16.82, 62.86], [23.54, -1.71]),
    ]
)
"""The points on the T that Diffusion Policy's replay buffer has as `keypoint`, in the T's frame:
found from that file, where they are fixed to a tenth of a pixel."""


class PushT:
    """The one task of PushT.

    Args:
        task: "pusht".
        cameras: Names under which `render` shows the one view, each with height and width.
    """

    def __init__(self, task: str = "pusht", cameras: Cameras | None = None) -> None:
        PUSHT.task_name(task)
        self._cameras = PUSHT.checked_cameras(cameras or {})
        self._environment = _make_environment()
        self._steps_left = 0

    def reset(self, seed: int) -> Observation:
        """Start the episode of a seed.

        Returns:
            `observation.state` (2,): the disc's x and y; `observation.environment_state` (3,): the
            T's x, y and angle from 0 to 2 pi; both as in LeRobot's dataset. `observation.keypoints`
            (18,): x, y of nine points on the T, as in Diffusion Policy's. All float32.
        """
        observation, _ = self._environment.reset(seed=seed)
        self._steps_left = MAX_STEPS
        return _to_observation(observation)

    def step(self, action: ArrayLike) -> StepResult:
        """Steer the disc towards x, y: (2,) in [0, 512]; outside is an error, not clipped."""
        if self._steps_left == 0:
            raise RuntimeError("no episode is under way: call reset(seed) before step(action)")
        action_A = checked_action(action, PUSHT)
        observation, reward, _, _, info = self._environment.step(action_A.astype(np.float64))
        self._steps_left -= 1
        return StepResult(
            observation=_to_observation(observation),
            is_success=bool(info["is_success"]),
            is_over=self._steps_left == 0,
            score=float(reward),
        )

    def render(self) -> dict[str, NDArray[np.uint8]]:
        """Camera to image, (H, W, 3) RGB, of the cameras that it was made with."""
        require_cameras(self._cameras)
        return {name: self._render(size) for name, size in self._cameras.items()}

    def _render(self, size: ImageSize) -> NDArray[np.uint8]:
        self._environment.observation_height, self._environment.observation_width = size
        image_HWC: NDArray[np.uint8] = self._environment._render()
        return np.ascontiguousarray(image_HWC)

    def close(self) -> None:
        self._environment.close()


PUSHT = SimulatorKind(
    name="pusht",
    make=PushT,
    tasks=TASKS,
    default_tasks=tuple(TASKS),
    packages=("gym-pusht", "pymunk"),
    extra="pusht",
    fps=FPS,
    max_steps=MAX_STEPS,
    action_low=(0.0, 0.0),
    action_high=(512.0, 512.0),
    cameras={"top": VIEW, "image": VIEW},
)


def _make_environment() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it prints a greeting otherwise
    try:
        from gym_pusht.envs import PushTEnv
    except ModuleNotFoundError as error:
        raise MissingExtraError("pusht") from error
    except ImportError as error:
        raise OatkitError(
            f"gym-pusht cannot be imported here: {error}; on Debian and Ubuntu OpenCV needs "
            "apt-get install libgl1 libglib2.0-0"
        ) from error
    return PushTEnv(obs_type="state")


def _to_observation(observation: NDArray[np.float64]) -> Observation:
    state = observation.astype(np.float32)
    return {
        STATE: state[:2].copy(),
        ENVIRONMENT_STATE: state[2:].copy(),
        KEYPOINTS_KEY: _keypoints(*observation[2:]).astype(np.float32).ravel(),
    }


def _keypoints(x: float, y: float, angle: float) -> NDArray[np.float64]:
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return KEYPOINTS_P2 @ turn + [x, y]
