"""Five tasks of robosuite, among them those of RoboMimic, behind one small adapter.

    environment = Robosuite("lift", {"agentview": (84, 84), "robot0_eye_in_hand": (84, 84)})
    observation = environment.reset(evaluation_seed(seed=0, episode=3))
    images = environment.render()  # {"agentview": ..., "robot0_eye_in_hand": ...}
    result = environment.step([0, 0, -1, 0, 0, 0, -1])  # down, with open fingers

A Panda arm under robosuite's default controller, OSC_POSE at 20 Hz. An episode is a function of its
seed and its actions alone, bit for bit. The physics are robosuite's own, bit for bit; its sensors,
its buffers of recent values and its second look at the mass matrix, which no action depends on, are
passed over in each of the 25 substeps of a step, so that a second has about 40 % more of them.

This is the only file that imports robosuite.

Shape letters: S proprioception (9), E environment state (31), A action (7), H W C image.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True)
class Scene:
    """Where the state of a task is in its model.

    Attributes:
        name: Robosuite's name of the task.
        instruction: What to do, in words.
        body: Body that is handled.
        goal: Body that says where it goes; None where there is none.
        joints: Joints whose angles are part of the state.
    """

    name: str
    instruction: str
    body: str
    goal: str | None = None
    joints: tuple[str, ...] = ()


SCENES = {
    "lift": Scene("Lift", "Lift the cube.", "cube_main"),
    "stack": Scene("Stack", "Put the red cube on the green cube.", "cubeA_main", goal="cubeB_main"),
    "can": Scene("PickPlaceCan", "Put the can into its bin.", "Can_main", goal="VisualCan_main"),
    "square": Scene(
        "NutAssemblySquare", "Put the square nut over its peg.", "SquareNut_main", goal="peg1"
    ),
    "door": Scene(
        *("Door", "Turn the handle and pull the door open.", "Door_latch", "Door_frame"),
        joints=("Door_hinge", "Door_latch_joint"),
    ),
}
"""Task name on the command line to its scene."""
TASKS = {task: scene.instruction for task, scene in SCENES.items()}
PAPER_TASKS = ("lift", "can", "square")
"""The tasks of RoboMimic on which the paper trains light policies."""
FPS = 20
SUBSTEPS = 25
"""Steps of the physics, 2 ms each, in one step."""
MAX_STEPS = 400
"""RoboMimic's limit for these tasks."""
ACTION_DIM = 7
ACTION_METERS, ACTION_RADIANS = 0.05, 0.5
"""What 1 of an action asks the hand to move and to turn."""
STATE_DIM = 9
ENVIRONMENT_STATE_DIM = 31
MODEL_SEED = 0
"""Seed that the scene is made with: Lift draws the size of its cube from it, once and for all."""
HAND_SITE, HAND_BODY = "gripper0_right_grip_site", "robot0_right_hand"
FINGERS = ("gripper0_right_finger_joint1", "gripper0_right_finger_joint2")
COLLISION_GEOMS = 0
"""Group of geoms that robosuite does not show."""
CAMERAS = {
    "agentview": "The table and the arm from the front.",
    "robot0_eye_in_hand": "The table between the two fingers, from the wrist.",
}
"""Camera, as robosuite calls it, to what it sees. Images are upright, as RoboMimic's are."""


class Robosuite:
    """One task of robosuite.

    Args:
        task: A name of `TASKS`.
        cameras: Cameras that `render` shows, of those in `CAMERAS`, each with height and width.
        shadows: Whether images have shadows and reflections, which take twice as long on a CPU.
    """

    fps = FPS
    max_steps = MAX_STEPS
    action_dim = ACTION_DIM

    def __init__(self, task: str, cameras: Cameras | None = None, *, shadows: bool = True) -> None:
        self.task = ROBOSUITE.task_name(task)
        self.instruction = TASKS[self.task]
        self._scene = SCENES[self.task]
        checked = ROBOSUITE.checked_cameras(cameras or {})
        self._environment = _make_environment(self._scene.name)
        # MuJoCo's own objects, which robosuite wraps.
        self.model, self.data = (
            self._environment.sim.model._model,
            self._environment.sim.data._data,
        )
        self._cameras = MujocoCameras(
            *(self.model, checked),
            shadows=shadows,
            reflections=shadows,
            hidden_groups=(COLLISION_GEOMS,),
        )
        self._steps_left = 0

    def reset(self, seed: int) -> Observation:
        """Start an episode whose start pose depends on `seed` alone.

        Returns:
            `observation.state` (9,): position of the hand, its quaternion (x, y, z, w) and both
            fingers, which are RoboMimic's `robot0_eef_pos`, `robot0_eef_quat` and
            `robot0_gripper_qpos`; `observation.environment_state` (31,): what `StateView` names.
            Both float32.
        """
        # All that draws shares this one generator.
        self._environment.rng.bit_generator.state = np.random.PCG64(seed).state
        self._environment.reset()
        self._steps_left = MAX_STEPS
        return self.observe()

    def step(self, action: ArrayLike) -> StepResult:
        """Execute one action, (7,) in [-1, 1].

        Motion of the hand along x, y, z, 1 being 5 cm, its turn about these axes, 1 being 0.5 rad,
        and the fingers: they open below 0 and close above. An action outside the bounds is an
        error, not clipped.
        """
        if self._steps_left == 0:
            raise RuntimeError("no episode is under way: call reset(seed) before step(action)")
        self._advance(checked_action(action, ROBOSUITE).astype(np.float64))
        self._steps_left -= 1
        return StepResult(
            observation=self.observe(),
            is_success=bool(self._environment._check_success()),
            is_over=self._steps_left == 0,
        )

    def observe(self) -> Observation:
        """What is seen now, in the form that `reset` gives it."""
        data, scene = self.data, self._scene
        hand, fingers = data.site(HAND_SITE), [data.joint(name).qpos[0] for name in FINGERS]
        quaternion = np.roll(data.body(HAND_BODY).xquat, -1)  # MuJoCo has w first
        goal = np.zeros(9) if scene.goal is None else _pose(data.body(scene.goal))
        angles = [data.joint(name).qpos[0] for name in scene.joints] or (0.0, 0.0)
        state_S = np.concatenate([hand.xpos, quaternion, fingers])
        state_E = np.concatenate([_pose(hand), fingers, _pose(data.body(scene.body)), goal, angles])
        return {STATE: state_S.astype(np.float32), ENVIRONMENT_STATE: state_E.astype(np.float32)}

    def place(self, positions: NDArray[np.float64]) -> None:
        """Put every joint where MuJoCo's `qpos` says, to observe a recorded state."""
        import mujoco

        self.data.qpos[:] = positions
        mujoco.mj_kinematics(self.model, self.data)

    def render(self) -> dict[str, NDArray[np.uint8]]:
        """Camera to image, (H, W, 3) RGB, of the cameras that it was made with."""
        return self._cameras.render(self.data)

    def close(self) -> None:
        """Free the simulator's memory and the graphics contexts."""
        self._cameras.close()
        self._environment.close()

    def _advance(self, action_A: NDArray[np.float64]) -> None:
        """Do to the physics what robosuite's own step does."""
        simulation, (robot,) = self._environment.sim, self._environment.robots
        arm, gripper = robot.part_controllers["right"], robot.part_controllers["right_gripper"]
        for substep in range(SUBSTEPS):
            simulation.step1()
            if substep == 0:
                robot.composite_controller.update_state()
                robot.composite_controller.set_goal(action_A)
                self._actuate("right_gripper", gripper.run_controller())
            self._actuate("right", arm.run_controller())
            simulation.step2()

    def _actuate(self, part: str, command: NDArray[np.float64]) -> None:
        (robot,) = self._environment.robots
        indices = robot._ref_actuators_indexes_dict[part]
        low, high = self.model.actuator_ctrlrange[indices].T
        self.data.ctrl[indices] = np.clip(command, low, high)


@dataclass(frozen=True)
class StateView:
    """The parts of an environment state.

    Turns are given by the first two columns of a rotation matrix, which, unlike quaternions, change
    without jumps. The first column of the hand's is the line on which its fingers move, and its
    third one points out of the palm.

    Attributes:
        hand: Position of the point between the fingertips, in meters.
        hand_turn: Rotation matrix of the hand.
        fingers: How far each finger is from the middle, the second one negative, in meters.
        body: Position of what is handled.
        body_turn: Rotation matrix of that body.
        goal: Position of where it goes; zeros where there is none (`lift`).
        goal_turn: Rotation matrix of the goal.
        angles: Angles of the door's hinge and handle; zeros in other tasks.
    """

    hand: NDArray[np.float64]
    hand_turn: NDArray[np.float64]
    fingers: NDArray[np.float64]
    body: NDArray[np.float64]
    body_turn: NDArray[np.float64]
    goal: NDArray[np.float64]
    goal_turn: NDArray[np.float64]
    angles: NDArray[np.float64]

    @classmethod
    def of(cls, environment_state_E: NDArray[np.float32]) -> StateView:
        """The parts of `observation.environment_state`, (31,)."""
        hand, hand_turn, fingers, body, body_turn, goal, goal_turn, angles = np.split(
            environment_state_E.astype(np.float64), (3, 9, 11, 14, 20, 23, 29)
        )
        turns = (_matrix(turn) for turn in (hand_turn, body_turn, goal_turn))
        return cls(hand, next(turns), fingers, body, next(turns), goal, next(turns), angles)


ROBOSUITE = SimulatorKind(
    name="robosuite",
    make=Robosuite,
    tasks=TASKS,
    default_tasks=PAPER_TASKS,
    packages=("robosuite", "mujoco"),
    extra="robosuite",
    fps=FPS,
    max_steps=MAX_STEPS,
    action_low=(-1.0,) * ACTION_DIM,
    action_high=(1.0,) * ACTION_DIM,
    cameras=CAMERAS,
    make_without_shadows=partial(Robosuite, shadows=False),
    works_with={"robosuite": "1.5.2", "mujoco": "3.3"},
)


def _pose(placed: Any) -> NDArray[np.float64]:
    """Position and the first two columns of the rotation matrix, (9,), of a body or site."""
    return np.concatenate([placed.xpos, placed.xmat.reshape(3, 3)[:, :2].T.ravel()])


def _matrix(two_columns: NDArray[np.float64]) -> NDArray[np.float64]:
    first, second = two_columns.reshape(2, 3)
    return np.stack([first, second, np.cross(first, second)], axis=1)


def _make_environment(name: str) -> Any:
    choose_graphics_library()
    ROBOSUITE.package_versions()
    # It tells of every config file that it reads, and of packages for other robots.
    logging.getLogger("robosuite_logs").addFilter(_is_error)
    try:
        import robosuite
    except ModuleNotFoundError as error:
        raise MissingExtraError("robosuite") from error
    return robosuite.make(
        name,
        robots="Panda",
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        renderer="mujoco",
        control_freq=FPS,
        ignore_done=True,  # the limit is ours
        hard_reset=False,
        seed=MODEL_SEED,
    )


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
