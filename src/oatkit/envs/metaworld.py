"""MetaWorld's 50 tasks and their scripted experts behind one small adapter.

    environment = MetaWorld("box-close", {"corner2": (480, 480), "gripperPOV": (96, 96)})
    expert = scripted_expert("box-close")
    observation = environment.reset(evaluation_seed(seed=0, episode=3))
    images = environment.render()  # {"corner2": ..., "gripperPOV": ...}
    action = expert(observation["observation.environment_state"])
    result = environment.step(action)

The goal is visible, as in MetaWorld's MT1 benchmark. An episode is a function of its goal
seed and its actions alone, bit for bit: what an environment object, or anything else in the
process, did before does not matter.

This is the only file that imports metaworld.

Shape letters: S proprioception (4), E environment state (39), G goal, A action (4),
H W C image.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.envs.mujoco_cameras import MujocoCameras, choose_graphics_library
from oatkit.envs.simulator import (
    Cameras,
    Observation,
    SimulatorKind,
    StepResult,
    checked_action,
)
from oatkit.errors import MissingExtraError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

TASKS = {
    "assembly": "Put the ring of the nut over the peg.",
    "basketball": "Drop the ball through the hoop.",
    "bin-picking": "Carry the cube from the red bin to the blue bin.",
    "box-close": "Put the lid on the box.",
    "button-press": "Push the button in.",
    "button-press-topdown": "Push the button down from above.",
    "button-press-topdown-wall": "Reach past the wall and push the button down from above.",
    "button-press-wall": "Reach past the wall and push the button in.",
    "coffee-button": "Start the coffee machine with its button.",
    "coffee-pull": "Drag the mug away from the coffee machine.",
    "coffee-push": "Slide the mug up to the coffee machine.",
    "dial-turn": "Turn the dial.",
    "disassemble": "Lift the nut off the peg.",
    "door-close": "Swing the door shut.",
    "door-lock": "Turn the latch down to lock the door.",
    "door-open": "Pull the door open by its handle.",
    "door-unlock": "Turn the latch up to unlock the door.",
    "drawer-close": "Push the drawer shut.",
    "drawer-open": "Pull the drawer out by its handle.",
    "faucet-close": "Turn the faucet to the left.",
    "faucet-open": "Turn the faucet to the right.",
    "hammer": "Drive the nail into the wall with the hammer.",
    "hand-insert": "Put the cube into the hole in the table.",
    "handle-press": "Push the handle down.",
    "handle-press-side": "Push the handle down from its side.",
    "handle-pull": "Lift the handle.",
    "handle-pull-side": "Lift the handle from its side.",
    "lever-pull": "Swing the lever up.",
    "peg-insert-side": "Slide the peg into the hole in the block.",
    "peg-unplug-side": "Pull the plug out of its socket.",
    "pick-out-of-hole": "Take the puck out of the hole and bring it to the goal.",
    "pick-place": "Pick up the puck and bring it to the goal.",
    "pick-place-wall": "Lift the puck over the wall and bring it to the goal.",
    "plate-slide": "Slide the disc forward into the net.",
    "plate-slide-back": "Slide the disc back out of the net.",
    "plate-slide-back-side": "Slide the disc sideways out of the net.",
    "plate-slide-side": "Slide the disc sideways into the net.",
    "push": "Push the puck forward to the goal.",
    "push-back": "Bring the puck back to the goal.",
    "push-wall": "Push the puck past the wall to the goal.",
    "reach": "Move the gripper to the goal.",
    "reach-wall": "Move the gripper past the wall to the goal.",
    "shelf-place": "Put the cube on the shelf.",
    "soccer": "Push the ball into the soccer goal.",
    "stick-pull": "Hook the thermos with the stick and pull it to the goal.",
    "stick-push": "Push the thermos to the goal with the stick.",
    "sweep": "Sweep the cube to the edge of the table.",
    "sweep-into": "Sweep the cube into the hole in the table.",
    "window-close": "Slide the window shut.",
    "window-open": "Slide the window open.",
}
"""Task name, without MetaWorld's `-v3`, to its instruction. No two instructions are equal."""

PAPER_TASKS = ("box-close", "coffee-pull", "disassemble", "stick-pull")
FPS = 80
MAX_STEPS = 500
ACTION_DIM = 4

CAMERA = "corner2"
"""The camera that demonstrations and LeRobot show."""
CAMERA_POSITION = (0.75, 0.075, 0.7)
"""Where LeRobot puts that camera: closer to the table than MetaWorld does."""
CAMERAS = {
    CAMERA: "The arm and the table from a corner, placed and turned as LeRobot does.",
    "topview": "The arm and the table from above.",
    "behindGripper": "The hand and the table in front of it, from behind the hand.",
    "gripperPOV": "The table between the two fingers, from the wrist.",
}
"""Camera, as MetaWorld calls it, to what it sees."""
UPSIDE_DOWN = frozenset({CAMERA})
"""Cameras that hang upside down in MetaWorld; their images are turned."""


class MetaWorld:
    """One MetaWorld task.

    Args:
        task: A name of `TASKS`; MetaWorld's own spelling with `-v3` is fine too.
        cameras: Cameras that `render` shows, of those in `CAMERAS`, each with height and width.
        shadows: Whether images have shadows, which takes about three times as long on a CPU.
    """

    fps = FPS
    max_steps = MAX_STEPS
    action_dim = ACTION_DIM

    def __init__(self, task: str, cameras: Cameras | None = None, *, shadows: bool = True) -> None:
        self.task = METAWORLD.task_name(task)
        self.instruction = TASKS[self.task]
        checked = METAWORLD.checked_cameras(cameras or {})
        self._environment = _make_environment(self.task)
        self._cameras = MujocoCameras(self._environment.model, checked, shadows=shadows)
        self._steps_left = 0

    @property
    def goal(self) -> NDArray[np.float64]:
        """Where objects and target are, (G,) in the order of the task; the goal seed decides it."""
        return np.array(self._environment._last_rand_vec)

    def reset(self, goal_seed: int) -> Observation:
        """Start an episode whose goal depends on `goal_seed` alone.

        Returns:
            `observation.state` (4,): hand position and gripper opening;
            `observation.environment_state` (39,): the same, the objects, all of this one step
            earlier, and the goal. Both float32.
        """
        # MetaWorld's reset lays out the scene twice. A goal that is sampled again each time leaves
        # traces of the first in the second, up to 17 cm in the first observation. So the goal is
        # sampled before and then held fixed, which is what MT1 does.
        environment = self._environment
        environment._freeze_rand_vec = False
        environment.seed(goal_seed)
        environment.reset_model()
        environment._freeze_rand_vec = True
        observation_E, _ = environment.reset()
        self._steps_left = MAX_STEPS
        return _to_observation(observation_E)

    def step(self, action: ArrayLike) -> StepResult:
        """Execute one action: hand motion x, y, z and gripper, (4,) in [-1, 1].

        An action outside the bounds is an error, not clipped, so that whoever records or learns
        from actions knows what was executed.
        """
        if self._steps_left == 0:
            raise RuntimeError("no episode is under way: call reset(goal_seed) before step(action)")
        action_A = checked_action(action, METAWORLD)
        observation_E, _, _, _, info = self._environment.step(action_A)
        self._steps_left -= 1
        return StepResult(
            observation=_to_observation(observation_E),
            is_success=bool(info["success"]),
            is_over=self._steps_left == 0,
        )

    def render(self) -> dict[str, NDArray[np.uint8]]:
        """Camera to image, (H, W, 3) RGB, of the cameras that it was made with."""
        images = self._cameras.render(self._environment.data)
        for camera in UPSIDE_DOWN & images.keys():
            images[camera] = np.ascontiguousarray(images[camera][::-1, ::-1])
        return images

    def close(self) -> None:
        """Free the simulator's memory and the graphics contexts."""
        self._cameras.close()
        self._environment.close()


METAWORLD = SimulatorKind(
    name="metaworld",
    make=MetaWorld,
    tasks=TASKS,
    default_tasks=PAPER_TASKS,
    # No `works_with`: pip holds the mujoco that its release asks for (3.1.1: 3.3.0 alone).
    packages=("metaworld", "mujoco"),
    extra="metaworld",
    fps=FPS,
    max_steps=MAX_STEPS,
    action_low=(-1.0,) * ACTION_DIM,
    action_high=(1.0,) * ACTION_DIM,
    cameras=CAMERAS,
    task_suffix="-v3",
    make_without_shadows=partial(MetaWorld, shadows=False),
)


def scripted_expert(
    task: str,
) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The expert that MetaWorld ships for `task`: environment state (39,) to action (4,).

    It takes the float32 state that datasets hold, so a recorded action is exactly the expert's
    answer to the recorded state. Over 20 goals of each task it solves as many episodes as from
    MetaWorld's own float64 state (985 of 1000). Its actions are clipped to [-1, 1]; MetaWorld
    would clip them silently.
    """
    policy = _import_metaworld().policies.ENV_POLICY_MAP[f"{METAWORLD.task_name(task)}-v3"]()

    def act(environment_state_E: NDArray[np.float32]) -> NDArray[np.float32]:
        with warnings.catch_warnings():
            # It says of nearly every action that it will be clipped.
            warnings.filterwarnings("ignore", "Constant.* may be too high")
            # A copy, because some experts change what they are given.
            action_A: NDArray[np.float32] = policy.get_action(environment_state_E.copy())
        return action_A.clip(-1, 1)

    return act


def _make_environment(name: str) -> Any:
    environment = _import_metaworld().env_dict.ALL_V3_ENVIRONMENTS[f"{name}-v3"]()
    environment._set_task_called = True
    environment.seeded_rand_vec = True
    environment._partially_observable = False
    # Made while the goal was hidden, its bounds would clip the goal to zero.
    del environment.sawyer_observation_space
    environment.model.camera(CAMERA).pos = CAMERA_POSITION
    return environment


def _to_observation(observation_E: NDArray[np.float64]) -> Observation:
    environment_state_E = observation_E.astype(np.float32)
    return {STATE: environment_state_E[:4].copy(), ENVIRONMENT_STATE: environment_state_E}


def _import_metaworld() -> ModuleType:
    choose_graphics_library()
    try:
        import metaworld
        import metaworld.policies
    except ModuleNotFoundError as error:
        raise MissingExtraError("metaworld") from error
    return metaworld
