"""Demonstrations in robosuite; how datasets are made is in `test_demonstration_job.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.envs.robosuite import FPS, TASKS, Robosuite
from oatkit.envs.robosuite_experts import scripted_expert
from oatkit.envs.simulator import demonstration_seed
from oatkit.errors import OatkitError
from oatkit.jobs.robosuite_demonstrations import RobosuiteDemonstrations, make_robosuite
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.robosuite_files import write_recording
from tests.jobs.test_robosuite_recordings import write


def make(out: Path, *, workers: int = 1, **wanted: Any) -> Path:
    settings = {"tasks": ("lift",), "episodes": 2, **wanted}
    return make_robosuite(out, RobosuiteDemonstrations(**settings), workers=workers)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip_without_robosuite()
    return make(tmp_path_factory.mktemp("robosuite") / "d")


def test_what_is_written(demos: Path) -> None:
    dataset = oatkit.open_dataset(demos)
    assert (len(dataset), dataset.fps, dataset.format) == (2, FPS, "LeRobot v3.0")
    assert dataset.action.names == ("x", "y", "z", "rx", "ry", "rz", "gripper")
    assert {episode.task for episode in dataset} == {TASKS["lift"]}
    for episode in dataset:
        states_TE = episode.column("observation.environment_state")
        assert episode.state.shape[1] == 9
        expected_TA = np.stack([scripted_expert("lift")(state_E) for state_E in states_TE])
        np.testing.assert_array_equal(episode.actions, expected_TA)


def test_recorded_actions_replay_the_recorded_states(demos: Path) -> None:
    environment = Robosuite("lift")
    for attempt, episode in enumerate(oatkit.open_dataset(demos)):
        observation = environment.reset(demonstration_seed(0, attempt))
        for action_A, state_E in zip(
            episode.actions, episode.column("observation.environment_state"), strict=True
        ):
            np.testing.assert_array_equal(observation["observation.environment_state"], state_E)
            observation = environment.step(action_A).observation
    environment.close()


def test_images_of_both_cameras(tmp_path: Path) -> None:
    skip_without_robosuite()
    root = make(tmp_path / "d", episodes=1, images=True, image_size=(32, 32), shadows=False)
    dataset = oatkit.open_dataset(root)
    assert list(dataset.cameras) == ["agentview", "robot0_eye_in_hand"]
    first, last = dataset[0].images("robot0_eye_in_hand", [0, len(dataset[0]) - 1])
    assert np.abs(first.astype(int) - last).mean() > 5


def test_recordings_take_the_experts_place(tmp_path: Path) -> None:
    skip_without_robosuite()
    path = write_recording(tmp_path / "demo.hdf5", "lift")
    wanted = RobosuiteDemonstrations(episodes=2, from_demos=path)  # the task is the file's
    dataset = oatkit.open_dataset(make_robosuite(tmp_path / "d", wanted, workers=1))
    assert [episode.task for episode in dataset] == [TASKS["lift"]] * 2
    with pytest.raises(OatkitError, match=r"made with other options \(from_demos was"):
        make_robosuite(tmp_path / "d", RobosuiteDemonstrations(("lift",), 2), workers=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("lif",)}, "unknown robosuite task 'lif'; known, closest first: lift"),
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"noise": -1.0}, "noise is -1.0, expected"),
        ({"images": True, "image_size": (63, 64)}, r"image_size is \(63, 64\), expected two even"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "d", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_that_do_not_fit_a_recording(tmp_path: Path) -> None:
    path = write(tmp_path / "demo.hdf5", {}, env="Stack")
    with pytest.raises(
        ValueError, match="has demonstrations of 'stack', and --tasks asks for door"
    ):
        make(tmp_path / "d", tasks=("door",), from_demos=path)
    with pytest.raises(ValueError, match="--pushes needs a scripted expert"):
        make(tmp_path / "d", tasks=("stack",), pushes=2, from_demos=path)
