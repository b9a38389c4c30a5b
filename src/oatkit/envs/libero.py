"""The four suites of LIBERO behind one small adapter, forty tasks in all.

    environment = Libero("libero-object", "pick_up_the_milk_and_place_it_in_the_basket")
    observation = environment.reset(evaluation_seed(seed=0, episode=3))  # official state 3
    result = environment.step([0, 0, -1, 0, 0, 0, -1])  # down, with open fingers

A Panda arm under robosuite's OSC_POSE at 20 Hz. Evaluations begin with LIBERO's 50 official
initial states, one after the other; demonstrations with placements and a pose of the arm that
LIBERO draws. Ten steps that do nothing come before either, while objects settle. An episode is a
function of its seed and its actions alone.

This is the only file that imports libero. It needs no torch: the official states are arrays of
numpy, which are read here.

Shape letters: S proprioception (8), E environment state (28), A action (7), H W C image.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import io
import json
import os
import pickle
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.envs.mujoco_cameras import MujocoCameras, choose_graphics_library
from oatkit.envs.simulator import (
    GOALS_PER_SEED,
    Cameras,
    Observation,
    SimulatorKind,
    StepResult,
    checked_action,
)
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

MAX_STEPS = {
    "libero-spatial": 280,
    "libero-object": 280,
    "libero-goal": 300,
    "libero-10": 520,
}
"""Suite to the number of steps after which an episode is over, as praxis-eval has them."""
FPS = 20
ACTION_DIM = 7
WAIT_STEPS = 10
"""Number of steps that do nothing at the start of an episode."""
WAIT_ACTION = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
MAX_OBJECTS = 4
"""Largest number of objects that matter in a task."""
ARM_NOISE = 0.02
"""Standard deviation of the arm's joints where demonstrations begin, in radians: that of the
official states. An arm that always begins in one pose never shows how to come from elsewhere."""
EVALUATION_SEED = 0
"""Seed that furniture is placed with where objects stand as in an official state."""
ASSETS_VARIABLE = "OATKIT_LIBERO_ASSETS"
"""Environment variable that names the folder of LIBERO's assets."""
PIP_NAMES = {
    "bddl": "bddl==1.0.1",  # later ones are another package
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
}
"""Module that LIBERO or robosuite imports to its name for pip, where that is another one."""
ARRAY_PARTS = ("_reconstruct", "ndarray", "dtype")
"""Names of numpy that the pickle of an array has."""
COLLISION_GEOMS = 0
"""Group of geoms that robosuite does not show."""
CAMERAS = {
    "agentview": "The table and the arm from the front.",
    "robot0_eye_in_hand": "The table between the two fingers, from the wrist.",
}
"""Camera, as LIBERO calls it, to what it sees. Images are turned by 180 degrees from what robosuite
gives, as in the published datasets."""


def instruction_of(task: str) -> str:
    """The words of a task's name: those behind the scene, where it names one."""
    _, is_scene, behind = task.partition("_SCENE")
    return (behind.partition("_")[2] if is_scene else task).replace("_", " ")


TASKS: dict[str, dict[str, str]] = {
    f"libero-{suite.removeprefix('libero_')}": {name: instruction_of(name) for name in names}
    for suite, names in json.loads(
        Path(__file__).with_name("libero_tasks.json").read_text()
    ).items()
}
"""Suite to its tasks in LIBERO's order, each with its instruction."""


class Libero:
    """One task of LIBERO.

    Args:
        suite: A name of `TASKS`.
        task: A task of the suite.
        cameras: Cameras that `render` shows, of those in `CAMERAS`, each with height and width.
        shadows: Whether images have shadows, which takes longer on a CPU.
    """

    fps = FPS
    action_dim = ACTION_DIM

    def __init__(
        self, suite: str, task: str, cameras: Cameras | None = None, *, shadows: bool = True
    ) -> None:
        self._kind = LIBERO[suite]
        self.task = self._kind.task_name(task)
        self.instruction = TASKS[suite][self.task]
        self._checked = self._kind.checked_cameras(cameras or {})
        self._shadows = shadows
        self._environment = _make_environment(suite, self.task)
        self._official_states = official_states(suite, self.task)
        self._cameras: MujocoCameras | None = None
        self._steps_left = 0

    def reset(self, seed: int) -> Observation:
        """Start the episode of a seed.

        Returns:
            `observation.state` (8,): position of the hand, its turn as axis and angle, both
            fingers; `observation.environment_state` (28,): position and quaternion (x, y, z, w) of
            up to four objects that matter in the task, zeros where there are fewer. Both float32.
        """
        # Furniture is placed anew by every reset and is no part of an official state.
        number, is_evaluation = divmod(seed, 2)
        np.random.seed(EVALUATION_SEED if is_evaluation else seed % 2**32)
        self._close_cameras()  # they show the model, which a reset replaces
        with _quiet():
            self._environment.reset()
        if is_evaluation:
            index = number % GOALS_PER_SEED % len(self._official_states)
            self._environment.set_init_state(self._official_states[index])
        else:
            self._displace_arm()
        for _ in range(WAIT_STEPS):
            seen, *_ = self._environment.step(WAIT_ACTION)
        self._steps_left = self._kind.max_steps
        return self._observe(seen)

    def step(self, action: ArrayLike) -> StepResult:
        """Execute one action, (7,) in [-1, 1].

        Motion of the hand along x, y, z, its turn about these axes, and the fingers: they open
        below 0 and close above. An action outside the bounds is an error, not clipped.
        """
        if self._steps_left == 0:
            raise RuntimeError("no episode is under way: call reset(seed) before step(action)")
        action_A = checked_action(action, self._kind).astype(np.float64)
        seen, *_ = self._environment.step(action_A)
        self._steps_left -= 1
        return StepResult(
            observation=self._observe(seen),
            is_success=bool(self._environment.check_success()),
            is_over=self._steps_left == 0,
        )

    def render(self) -> dict[str, NDArray[np.uint8]]:
        """Camera to image, (H, W, 3) RGB, of the cameras that it was made with."""
        simulation = self._environment.sim
        if self._cameras is None:
            self._cameras = MujocoCameras(
                simulation.model._model,
                self._checked,
                shadows=self._shadows,
                hidden_groups=(COLLISION_GEOMS,),
            )
        # Upright and mirrored: what robosuite gives is upside down, and turned from there.
        images = self._cameras.render(simulation.data._data)
        return {name: np.ascontiguousarray(image[:, ::-1]) for name, image in images.items()}

    def close(self) -> None:
        """Free the simulator's memory and the graphics contexts."""
        self._close_cameras()
        self._environment.close()

    def _displace_arm(self) -> None:
        """Put the arm where official states have it. The controller holds the turn of the hand that
        the reset left, as it does in evaluations."""
        (robot,) = self._environment.env.robots
        joints = robot._ref_joint_pos_indexes
        self._environment.sim.data.qpos[joints] += ARM_NOISE * np.random.randn(len(joints))
        self._environment.sim.forward()

    def _close_cameras(self) -> None:
        if self._cameras is not None:
            self._cameras.close()
        self._cameras = None

    def _observe(self, seen: dict[str, NDArray[np.float64]]) -> Observation:
        turn = _axis_angle(seen["robot0_eef_quat"])
        state_S = np.concatenate([seen["robot0_eef_pos"], turn, seen["robot0_gripper_qpos"]])
        state_E = np.zeros(7 * MAX_OBJECTS)
        states = self._environment.env.object_states_dict
        for place, name in enumerate(self._environment.obj_of_interest):
            state = states[name]
            pose = state.get_geom_state()
            # of objects as MuJoCo has it, w first; of sites w is last already
            quaternion = np.roll(pose["quat"], -1 if state.object_state_type == "object" else 0)
            state_E[7 * place : 7 * place + 7] = *pose["pos"], *quaternion
        return {STATE: state_S.astype(np.float32), ENVIRONMENT_STATE: state_E.astype(np.float32)}


def _kind(suite: str) -> SimulatorKind:
    return SimulatorKind(
        name=suite,
        make=partial(Libero, suite),
        tasks=TASKS[suite],
        default_tasks=tuple(TASKS[suite]),
        packages=("hf-libero", "robosuite", "mujoco"),
        extra="libero",
        fps=FPS,
        max_steps=MAX_STEPS[suite],
        action_low=(-1.0,) * ACTION_DIM,
        action_high=(1.0,) * ACTION_DIM,
        cameras=CAMERAS,
        make_without_shadows=partial(Libero, suite, shadows=False),
        works_with={"hf-libero": "0.1.4", "robosuite": "1.4", "mujoco": "3.3"},
    )


LIBERO = {suite: _kind(suite) for suite in TASKS}
"""Suite to its simulator."""


def official_states(suite: str, task: str) -> NDArray[np.float64]:
    """LIBERO's initial states of a task for evaluations, one a row: time, positions, velocities.

    They were written by torch, but are an array of numpy in a pickle in a zip; no class but those
    of arrays is taken from it.
    """
    folder = package_folder() / "init_files" / suite.replace("-", "_")
    with zipfile.ZipFile(folder / f"{task}.pruned_init") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        states: NDArray[np.float64] = _ArrayUnpickler(io.BytesIO(archive.read(name))).load()
    return states


class _ArrayUnpickler(pickle.Unpickler):
    """Reads arrays and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        is_numpy = module.partition(".")[0] == "numpy"
        if (is_numpy and name in ARRAY_PARTS) or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an array")


def package_folder() -> Path:
    """Where LIBERO's tasks and initial states are installed."""
    found = importlib.util.find_spec("libero")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("libero")
    return Path(next(iter(found.submodule_search_locations))) / "libero"


def assets_folder() -> Path:
    """Where LIBERO's meshes and textures are; where they are nowhere, the error says what to do."""
    named = os.environ.get(ASSETS_VARIABLE)
    cached = Path.home() / ".cache/libero/assets"  # where hf-libero downloads them to
    for folder in [Path(named)] if named else [package_folder() / "assets", cached]:
        if (folder / "scenes").is_dir():
            return folder.resolve()  # robosuite looks for relative paths in its own folder
    raise OatkitError(
        f"LIBERO's assets are not in {named or cached}: `hf download lerobot/libero-assets "
        f"--repo-type dataset --local-dir DIR` gets them, and {ASSETS_VARIABLE}=DIR says where "
        "they are"
    )


def _make_environment(suite: str, task: str) -> Any:
    LIBERO[suite].package_versions()
    root = package_folder()
    _configure(root, assets_folder())
    choose_graphics_library()
    with _importing():
        from libero.libero.envs.env_wrapper import ControlEnv

        return ControlEnv(
            bddl_file_name=str(root / "bddl_files" / suite.replace("-", "_") / f"{task}.bddl"),
            use_camera_obs=False,
            has_offscreen_renderer=False,
            ignore_done=True,  # the step limit is counted here
            control_freq=FPS,
        )


@cache
def _configure(root: Path, assets: Path) -> None:
    """Tell LIBERO where its files are; without a file that says so it would ask on the terminal."""
    folder = Path(tempfile.mkdtemp(prefix="oatkit-libero-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    paths = {"benchmark_root": root, "bddl_files": root / "bddl_files", "assets": assets}
    paths |= {"init_states": root / "init_files", "datasets": root.parent / "datasets"}
    text = json.dumps({name: str(path) for name, path in paths.items()})  # which is YAML too
    (folder / "config.yaml").write_text(text)
    os.environ["LIBERO_CONFIG_PATH"] = str(folder)
    with _importing():
        import libero.libero

    libero.libero._assets_path_cache = str(assets)


@contextlib.contextmanager
def _importing() -> Iterator[None]:
    """Import quietly; a package that is missing, as after an installation without dependencies, is
    named with the line that installs it."""
    try:
        with _quiet():
            yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        raise MissingExtraError("libero", PIP_NAMES.get(module, module)) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """LIBERO and robosuite print, and warn of, what nobody asked for."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _axis_angle(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    """A turn (x, y, z, w) as its axis times its angle, (3,), as robosuite has it."""
    cosine = float(np.clip(quaternion[3], -1, 1))
    sine = np.sqrt(1 - cosine**2)
    if np.isclose(sine, 0):
        return np.zeros(3)
    return quaternion[:3] * 2 * np.arccos(cosine) / sine
