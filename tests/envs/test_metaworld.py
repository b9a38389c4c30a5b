from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from oatkit.envs.metaworld import (
    CAMERAS,
    FPS,
    MAX_STEPS,
    PAPER_TASKS,
    TASKS,
    MetaWorld,
    scripted_expert,
)
from oatkit.envs.simulator import (
    Cameras,
    demonstration_seed,
    evaluation_seed,
)
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

STALE_SCENE_TASKS = ("disassemble", "drawer-open", "lever-pull", "window-open")
"""Tasks whose first observation is off by centimetres if the goal is not held fixed in reset."""


@pytest.fixture(scope="module", autouse=True)
def reach() -> Iterator[MetaWorld]:
    """Made before a test imports MuJoCo by itself, so that the adapter chooses how to render."""
    environment = MetaWorld("reach")
    yield environment
    environment.close()


def play(environment: MetaWorld, goal_seed: int, *, num_steps: int = 60) -> list[np.ndarray]:
    """Everything the expert sees, does and achieves in an episode."""
    expert = scripted_expert(environment.task)
    state_E = environment.reset(goal_seed)[ENVIRONMENT_STATE]
    trace = [environment.goal, state_E]
    for _ in range(num_steps):
        action_A = expert(state_E)
        result = environment.step(action_A)
        state_E = result.observation[ENVIRONMENT_STATE]
        trace += [action_A, state_E, np.array(result.is_success)]
    return trace


def are_identical(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return len(left) == len(right) and all(map(np.array_equal, left, right))


def make_mess(environment: MetaWorld, seed: int) -> None:
    """Leave the environment in the middle of a random episode."""
    rng = np.random.default_rng(seed)
    environment.reset(int(rng.integers(2**30)))
    for action_A in rng.choice([-1.0, 1.0], size=(40, 4)):
        environment.step(action_A)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL")}
    return subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True
    )


# Names


def test_tasks_are_those_of_the_package() -> None:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    assert {f"{task}-v3" for task in TASKS} == set(ALL_V3_ENVIRONMENTS)
    assert set(PAPER_TASKS) < set(TASKS)


def test_an_instruction_tells_its_task() -> None:
    assert len(set(TASKS.values())) == len(TASKS)


def test_rate_and_limit_are_those_of_the_package() -> None:
    from metaworld.sawyer_xyz_env import SawyerXYZEnv

    assert SawyerXYZEnv.metadata["render_fps"] == FPS
    assert SawyerXYZEnv.max_path_length == MAX_STEPS


@pytest.mark.parametrize("make", [MetaWorld, scripted_expert])
def test_unknown_task_is_answered_with_the_closest(make: object) -> None:
    with pytest.raises(
        ValueError, match="unknown metaworld task 'box-clos'; known, closest first: box-close,"
    ):
        make("box-clos")  # type: ignore[operator]


def test_metaworlds_spelling_of_a_task_is_known() -> None:
    environment = MetaWorld("reach-v3")
    assert environment.task == "reach"
    assert environment.instruction == TASKS["reach"]


def test_importing_the_adapter_imports_no_simulator() -> None:
    code = (
        "import sys, oatkit.envs.metaworld\n"
        "print({'metaworld', 'mujoco', 'gymnasium'} & set(sys.modules))"
    )
    assert run_python(code).stdout.strip() == "set()"


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metaworld", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[metaworld\]'"):
        MetaWorld("reach")


# Goals


def goals_differ(task: str, num_goals: int) -> bool:
    environment = MetaWorld(task)
    goals = []
    for index in range(num_goals):
        for goal_seed in (demonstration_seed(0, index), evaluation_seed(0, index)):
            environment.reset(goal_seed)
            goals.append(environment.goal)
    return len(np.unique(np.array(goals), axis=0)) == 2 * num_goals


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_goals_of_demonstrations_and_evaluations_differ(task: str) -> None:
    assert goals_differ(task, num_goals=5)


@pytest.mark.sim
@pytest.mark.parametrize("task", TASKS)
def test_goals_of_demonstrations_and_evaluations_differ_everywhere(task: str) -> None:
    assert goals_differ(task, num_goals=25)


# Episodes


def test_observation_has_lerobots_keys(reach: MetaWorld) -> None:
    for observation in (reach.reset(0), reach.step(np.zeros(4)).observation):
        state_S, state_E = observation[STATE], observation[ENVIRONMENT_STATE]
        assert set(observation) == {STATE, ENVIRONMENT_STATE}
        assert state_S.dtype == state_E.dtype == np.float32
        assert state_E.shape == (39,)
        np.testing.assert_array_equal(state_S, state_E[:4])


def test_goal_is_visible_in_every_observation(reach: MetaWorld) -> None:
    first = reach.reset(0)[ENVIRONMENT_STATE]
    later = reach.step(np.ones(4)).observation[ENVIRONMENT_STATE]
    np.testing.assert_array_equal(first[36:], reach.goal[3:].astype(np.float32))
    np.testing.assert_array_equal(later[36:], first[36:])


def test_an_observation_stays_as_it_was(reach: MetaWorld) -> None:
    observation = reach.reset(0)
    before = observation[ENVIRONMENT_STATE].copy()
    observation[STATE][:] = 7
    reach.step(np.ones(4))
    np.testing.assert_array_equal(observation[ENVIRONMENT_STATE], before)


def test_an_episode_is_over_after_the_limit(reach: MetaWorld) -> None:
    reach.reset(0)
    are_over = [reach.step(np.zeros(4)).is_over for _ in range(MAX_STEPS)]
    assert are_over == [False] * (MAX_STEPS - 1) + [True]
    with pytest.raises(RuntimeError, match=r"call reset\(goal_seed\) before step\(action\)"):
        reach.step(np.zeros(4))


def test_a_step_needs_a_reset() -> None:
    with pytest.raises(RuntimeError, match="no episode is under way"):
        MetaWorld("reach").step(np.zeros(4))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3), r"an action has shape \(3,\), expected \(4,\)"),
        (np.zeros((1, 4)), r"an action has shape \(1, 4\), expected \(4,\)"),
        ([0, np.nan, 0, 0], r"an action is not finite: \[0.0, nan, 0.0, 0.0\]"),
        ([0, 0, 0, 1.5], r"an action is outside \[-1, 1\]: \[0.0, 0.0, 0.0, 1.5\]; clip it"),
    ],
)
def test_a_bad_action_is_refused(reach: MetaWorld, action: object, message: str) -> None:
    reach.reset(0)
    with pytest.raises(ValueError, match=message):
        reach.step(action)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", STALE_SCENE_TASKS)
def test_first_observation_shows_the_scene_of_its_own_goal(task: str) -> None:
    environment = MetaWorld(task)
    for goal_seed in range(3):
        first_E = environment.reset(goal_seed)[ENVIRONMENT_STATE]
        second_E = environment.step(np.zeros(4)).observation[ENVIRONMENT_STATE]
        np.testing.assert_allclose(first_E[4:7], second_E[4:7], atol=0.005)


def check_against_mt1(task: str, cameras: Cameras | None = None) -> None:
    """Reset and steps equal MetaWorld's own, for the same goal, in a new environment."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    from metaworld.types import Task

    ours = MetaWorld(task, cameras)
    make_mess(ours, seed=0)
    state_E = ours.reset(5)[ENVIRONMENT_STATE]
    theirs = ALL_V3_ENVIRONMENTS[f"{task}-v3"](render_mode="rgb_array", camera_name="corner2")
    theirs.model.cam_pos[2] = [0.75, 0.075, 0.7]
    data = {"env_cls": type(theirs), "rand_vec": ours.goal, "partially_observable": False}
    theirs.set_task(Task(f"{task}-v3", pickle.dumps(data)))
    np.testing.assert_array_equal(state_E, theirs.reset()[0].astype(np.float32))
    for action_A in np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32):
        result = ours.step(action_A)
        expected_E, _, _, _, info = theirs.step(action_A)
        np.testing.assert_array_equal(
            result.observation[ENVIRONMENT_STATE], expected_E.astype(np.float32)
        )
        assert result.is_success == bool(info["success"])
    if cameras:
        image_HWC = ours.render()["corner2"]
        np.testing.assert_array_equal(image_HWC, np.flip(theirs.render(), (0, 1)))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_episodes_are_those_of_mt1(task: str) -> None:
    check_against_mt1(task)


@pytest.mark.sim
@pytest.mark.parametrize("task", TASKS)
def test_episodes_are_those_of_mt1_everywhere(task: str) -> None:
    check_against_mt1(task)


def check_history_does_not_matter(task: str) -> None:
    fresh = play(MetaWorld(task), goal_seed=8)
    used = MetaWorld(task)
    for seed in range(3):
        make_mess(used, seed)
        np.random.seed(seed)  # MetaWorld uses the global generator by default
        assert are_identical(play(used, goal_seed=8), fresh)


@pytest.mark.parametrize("task", ["box-close", "disassemble", "door-lock"])
def test_an_episode_depends_on_its_seed_and_actions_alone(task: str) -> None:
    check_history_does_not_matter(task)


@pytest.mark.sim
@pytest.mark.parametrize("task", TASKS)
def test_an_episode_depends_on_its_seed_and_actions_alone_everywhere(task: str) -> None:
    check_history_does_not_matter(task)


def test_another_seed_is_another_episode(reach: MetaWorld) -> None:
    assert not are_identical(play(reach, 0, num_steps=5), play(reach, 2, num_steps=5))


# The expert


def test_expert_solves_its_task_within_bounds() -> None:
    environment = MetaWorld("coffee-pull")
    trace = play(environment, demonstration_seed(0, 0), num_steps=100)
    actions_TA = np.array(trace[2::3])
    assert any(trace[4::3])
    assert actions_TA.dtype == np.float32
    assert np.abs(actions_TA).max() == 1


@pytest.mark.parametrize("task", TASKS)
def test_expert_leaves_the_state_as_it_was(task: str) -> None:
    state_E = np.linspace(0, 1, 39, dtype=np.float32)
    before = state_E.copy()
    action_A = scripted_expert(task)(state_E)
    assert action_A.shape == (4,)
    np.testing.assert_array_equal(state_E, before)


# Rendering


@pytest.fixture(scope="module")
def _needs_rendering() -> None:
    environment = MetaWorld("reach", {"corner2": (8, 8)})
    environment.reset(0)
    try:
        environment.render()
    except OatkitError as error:
        pytest.skip(str(error))
    environment.close()


def render_once(task: str, cameras: Cameras, *, shadows: bool = True) -> dict[str, np.ndarray]:
    environment = MetaWorld(task, cameras, shadows=shadows)
    environment.reset(0)
    images = environment.render()
    environment.close()
    return images


@pytest.mark.usefixtures("_needs_rendering")
@pytest.mark.parametrize("image_size", [(48, 64), (700, 720)])
def test_an_image_has_the_size_asked_for(image_size: tuple[int, int]) -> None:
    image_HWC = render_once("reach", {"corner2": image_size}, shadows=False)["corner2"]
    assert image_HWC.dtype == np.uint8
    assert image_HWC.shape == (*image_size, 3)
    assert image_HWC.std() > 10


@pytest.mark.usefixtures("_needs_rendering")
def test_cameras_have_images_of_their_own() -> None:
    """Several at once, of different sizes, are what each shows alone."""
    sizes = dict.fromkeys(CAMERAS, (40, 48)) | {"gripperPOV": (64, 32)}
    together = render_once("box-close", sizes, shadows=False)
    assert list(together) == list(CAMERAS)
    for camera, size in sizes.items():
        alone = render_once("box-close", {camera: size}, shadows=False)[camera]
        assert together[camera].shape == (*size, 3)
        np.testing.assert_array_equal(together[camera], alone)
    assert len({image.tobytes() for image in together.values()}) == len(CAMERAS)


@pytest.mark.usefixtures("_needs_rendering")
def test_the_wrist_camera_moves_with_the_hand() -> None:
    """The corner camera stands still: most of what it shows stays as it was."""
    environment = MetaWorld("reach", {"corner2": (64, 64), "gripperPOV": (64, 64)}, shadows=False)
    environment.reset(0)
    before = environment.render()
    for _ in range(10):
        environment.step([1, 0, 0, 0])
    after = environment.render()
    environment.close()
    changed = {camera: (before[camera] != after[camera]).mean() for camera in before}
    assert changed["gripperPOV"] > 0.5 > changed["corner2"] > 0


@pytest.mark.usefixtures("_needs_rendering")
def test_shadows_can_be_left_out() -> None:
    cameras = {"corner2": (96, 96)}
    with_HWC = render_once("box-close", cameras)["corner2"]
    without_HWC = render_once("box-close", cameras, shadows=False)["corner2"]
    assert (with_HWC != without_HWC).mean() > 0.1


@pytest.mark.usefixtures("_needs_rendering")
def test_an_image_is_what_lerobot_shows() -> None:
    """LeRobot moves the camera, renders through Gymnasium and flips both axes."""
    check_against_mt1("box-close", {"corner2": (480, 480)})


@pytest.mark.usefixtures("_needs_rendering")
def test_rendering_does_not_change_the_episode() -> None:
    filmed = MetaWorld("box-close", {"corner2": (32, 32), "topview": (24, 24)}, shadows=False)
    expert = scripted_expert("box-close")
    trace = play(MetaWorld("box-close"), 0, num_steps=20)
    state_E = filmed.reset(0)[ENVIRONMENT_STATE]
    for expected_E in trace[3::3]:
        filmed.render()
        state_E = filmed.step(expert(state_E)).observation[ENVIRONMENT_STATE]
        np.testing.assert_array_equal(state_E, expected_E)
    filmed.close()


def test_rendering_needs_a_camera(reach: MetaWorld) -> None:
    with pytest.raises(ValueError, match=r"cameras=\{name: \(height, width\)\}"):
        reach.render()


@pytest.mark.parametrize(
    ("cameras", "message"),
    [
        ({"corner2": (0, 64)}, "the image of camera 'corner2' is 0 x 64, expected .* 1 or more"),
        ({"gripper": (8, 8)}, "unknown camera of metaworld 'gripper'; known, closest first: grip"),
    ],
)
def test_a_wrong_camera_is_refused(cameras: Cameras, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetaWorld("reach", cameras)


RENDER = """
import os
from oatkit.envs.metaworld import MetaWorld
from oatkit.errors import OatkitError

environment = MetaWorld("reach", {"corner2": (8, 8)})
environment.reset(0)
try:
    print(os.environ.get("MUJOCO_GL"), environment.render()["corner2"].shape)
except OatkitError as error:
    print(error)
environment.close()
"""


@pytest.mark.usefixtures("_needs_rendering")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems render without a display")
@pytest.mark.parametrize("before", ["", "import mujoco"])
def test_a_machine_without_display_renders_unasked(before: str) -> None:
    assert run_python(before + RENDER).stdout.strip() in ("egl (8, 8, 3)", "osmesa (8, 8, 3)")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems render without a display")
def test_rendering_that_cannot_work_says_what_to_do() -> None:
    output = run_python(RENDER, MUJOCO_GL="glfw").stdout
    assert "MuJoCo cannot render here (MUJOCO_GL=glfw)" in output
    assert "set MUJOCO_GL=egl (apt-get install libegl1)" in output


@pytest.mark.usefixtures("_needs_rendering")
def test_a_process_that_ends_with_an_open_renderer_ends_quietly() -> None:
    ended = run_python(RENDER.replace("environment.close()", ""))
    assert "(8, 8, 3)" in ended.stdout
    assert ended.stderr == ""
