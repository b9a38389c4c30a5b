"""robosuite behind the adapter; what every simulator must do is in `test_conformance.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.envs import simulator as simulator_module
from oatkit.envs.robosuite import CAMERAS, FPS, ROBOSUITE, SCENES, TASKS, Robosuite, StateView
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE
from tests.envs.robosuite_install import skip_without_robosuite

ROOT = Path(__file__).parents[2]


def test_importing_the_adapter_imports_no_simulator() -> None:
    code = (
        "import sys, oatkit.envs.robosuite\n"
        "print({'robosuite', 'mujoco', 'numba'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_every_test_of_robosuite_is_run_by_its_target() -> None:
    """Here they are skipped."""
    text = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"^test-robosuite:.*\n\t(.*)", text, re.MULTILINE)
    named = [ROOT / word for word in command.split() if word.startswith("tests/")]
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "skip_without_robosuite()" in path.read_text():
            assert any(path == one or one in path.parents for one in named), path


def pretend(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Let packages seem to be installed in some versions."""
    monkeypatch.setattr(simulator_module, "version", versions.__getitem__)


def test_another_mujoco_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, robosuite="1.5.2", mujoco="4.0.0")
    message = (
        "robosuite does not work here: mujoco is 4.0.0, expected 3.3; "
        r"pip install 'oatkit\[robosuite\]' in an environment of its own"
    )
    with pytest.raises(OatkitError, match=message):
        Robosuite("lift")


def test_versions_that_were_tested_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    for mujoco in ("3.3.0", "3.3.7", "3.3"):
        pretend(monkeypatch, robosuite="1.5.2", mujoco=mujoco)
        assert ROBOSUITE.package_versions()["mujoco"] == mujoco
    pretend(monkeypatch, robosuite="1.5.20", mujoco="3.30.0")
    with pytest.raises(OatkitError, match=r"robosuite is 1.5.20, .*, mujoco is 3.30.0, expected"):
        ROBOSUITE.package_versions()


def test_a_view_takes_the_state_apart() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    pose = [*turn[:, 0], *turn[:, 1]]
    state_E = np.concatenate(
        [[1, 2, 3], pose, [0.04, -0.04], [4, 5, 6], pose, [7, 8, 9], pose, [0.1, 0.2]]
    )
    view = StateView.of(state_E.astype(np.float32))
    for found in (view.hand_turn, view.body_turn, view.goal_turn):
        np.testing.assert_allclose(found, turn, atol=1e-6)
    np.testing.assert_allclose([*view.hand, *view.body, *view.goal], range(1, 10))
    np.testing.assert_allclose([*view.fingers, *view.angles], [0.04, -0.04, 0.1, 0.2], atol=1e-6)


@pytest.fixture(scope="module")
def lift() -> Iterator[Robosuite]:
    skip_without_robosuite()
    environment = Robosuite("lift")
    yield environment
    environment.close()


def own_environment(task: str) -> Any:
    """The task as robosuite itself makes it."""
    import robosuite

    return robosuite.make(
        SCENES[task].name,
        robots="Panda",
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        renderer="mujoco",
        control_freq=FPS,
        ignore_done=True,
        hard_reset=False,
        seed=0,
    )


def test_missing_package_names_the_extra(lift: Robosuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "robosuite", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[robosuite\]'"):
        Robosuite("lift")


@pytest.mark.parametrize("task", TASKS)
def test_episodes_are_robosuites_own(task: str, lift: Robosuite) -> None:
    """What is passed over in a step changes nothing: positions and velocities are equal bits."""
    ours, theirs = Robosuite(task), own_environment(task)
    ours.reset(7)
    theirs.rng.bit_generator.state = np.random.PCG64(7).state
    theirs.reset()
    for action_A in np.random.default_rng(0).uniform(-1, 1, (25, 7)).astype(np.float32):
        result = ours.step(action_A)
        seen = theirs.step(action_A.astype(np.float64))[0]
        np.testing.assert_array_equal(ours.data.qpos, theirs.sim.data._data.qpos)
        np.testing.assert_array_equal(ours.data.qvel, theirs.sim.data._data.qvel)
        assert result.is_success == bool(theirs._check_success())
        parts = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")
        expected = np.concatenate([seen[part] for part in parts]).astype(np.float32)
        np.testing.assert_array_equal(np.abs(result.observation[STATE]), np.abs(expected))
    ours.close()


def test_the_state_says_where_things_are(lift: Robosuite) -> None:
    observation = lift.reset(3)
    view = StateView.of(observation[ENVIRONMENT_STATE])
    np.testing.assert_array_equal(view.hand.astype(np.float32), observation[STATE][:3])
    np.testing.assert_allclose(view.body, lift.data.body("cube_main").xpos, atol=1e-6)
    np.testing.assert_allclose(
        view.body_turn, lift.data.body("cube_main").xmat.reshape(3, 3), atol=1e-6
    )
    assert not np.any(view.goal)
    assert not np.any(view.angles)
    assert view.hand_turn[2, 2] < -0.9, "the palm points down"
    assert abs(view.hand_turn[1, 0]) > 0.9, "the fingers are along y"


def test_an_action_moves_the_hand_along_the_worlds_axes(lift: Robosuite) -> None:
    for axis in range(3):
        start = lift.reset(0)[STATE][:3]
        action_A = np.zeros(7)
        action_A[axis] = 1
        for _ in range(5):
            end = lift.step(action_A).observation[STATE][:3]
        moved = end - start
        assert moved[axis] > 0.03
        assert moved[axis] > 3 * np.abs(np.delete(moved, axis)).max()


def test_the_fingers_open_below_0_and_close_above(lift: Robosuite) -> None:
    for fingers, opening in ((-1.0, 0.07), (1.0, 0.01)):
        lift.reset(0)
        for _ in range(15):
            state_S = lift.step([0, 0, 0, 0, 0, 0, fingers]).observation[STATE]
        assert (state_S[7] - state_S[8] > opening) == (fingers < 0)


def test_images_are_upright_and_the_wrist_moves_with_the_hand(lift: Robosuite) -> None:
    environment = Robosuite("lift", dict.fromkeys(CAMERAS, (64, 64)), shadows=False)
    environment.reset(0)
    try:
        before = environment.render()
    except OatkitError as error:
        pytest.skip(str(error))
    for _ in range(8):
        environment.step([0, 1, 0, 0, 0, 0, 0])
    after = environment.render()
    changed = {
        camera: np.abs(before[camera].astype(int) - after[camera]).mean() for camera in before
    }
    assert changed["robot0_eye_in_hand"] > changed["agentview"] > 0
    # The table is below the wall behind it.
    assert before["agentview"][-8:].mean() != pytest.approx(before["agentview"][:8].mean(), abs=5)
    environment.close()


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_of_every_task_depends_on_its_seed_and_actions_alone(task: str) -> None:
    """The conformance tests ask the same of one task, with more around it."""
    skip_without_robosuite()

    def play(environment: Robosuite, seed: int) -> bytes:
        actions = np.random.default_rng(seed).uniform(*ROBOSUITE.bounds, (12, 7))
        seen = [environment.reset(seed), *(environment.step(a).observation for a in actions)]
        return b"".join(part.tobytes() for parts in seen for part in parts.values())

    used, fresh = Robosuite(task), Robosuite(task)
    play(used, 3)
    np.random.seed(3)
    assert play(used, 8) == (expected := play(fresh, 8))
    assert play(used, 10) != expected
    used.close()
    fresh.close()
