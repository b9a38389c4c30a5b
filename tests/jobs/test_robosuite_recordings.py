"""Recordings of robosuite become what an expert sees; files that do not fit are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oatkit.envs.robosuite import SCENES, Robosuite, StateView
from oatkit.errors import DatasetError
from oatkit.jobs.robosuite_recordings import (
    DOOR_BODY,
    DOOR_PLACE,
    read_recordings,
    recorded_task,
)
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.robosuite_files import write_recording

h5py = pytest.importorskip("h5py", reason="needs the extra data")


def write(path: Path, demos: dict[str, dict[str, np.ndarray]], **attributes: str) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs.update(attributes)
        for name, columns in demos.items():
            group = data.create_group(name)
            for key, values in columns.items():
                group[key] = values
    return path


def test_a_file_says_its_task(tmp_path: Path) -> None:
    for task, scene in SCENES.items():
        assert recorded_task(write(tmp_path / "own.hdf5", {}, env=scene.name)) == task
        robomimic = {"env_args": json.dumps({"env_name": scene.name})}
        assert recorded_task(write(tmp_path / "mimic.hdf5", {}, **robomimic)) == task
    assert recorded_task(write(tmp_path / "all.hdf5", {}, env="NutAssembly")) == "square"
    with pytest.raises(DatasetError, match="has demonstrations of Wipe, expected one of Lift,"):
        recorded_task(write(tmp_path / "wipe.hdf5", {}, env="Wipe"))


def test_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.hdf5").write_text("no HDF5")
    for path, message in (
        (tmp_path / "text.hdf5", "is no HDF5 file, or is cut off"),
        (tmp_path, "is a folder"),
        (tmp_path / "absent.hdf5", "does not exist"),
    ):
        with pytest.raises(DatasetError, match=rf"{path} {message}: --from-demos takes") as said:
            recorded_task(path)
        assert "errno" not in str(said.value)
    with h5py.File(tmp_path / "other.hdf5", "w"):
        pass
    with pytest.raises(DatasetError, match="has no group `data`"):
        recorded_task(tmp_path / "other.hdf5")


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        ({}, "has no demonstrations in `data`"),
        ({"demo_1": {"states": np.zeros((5, 32))}}, "demo_1 has no `actions`"),
        (
            {"demo_1": {"states": np.zeros((5, 34)), "actions": np.zeros((5, 8))}},
            r"states of shape \(5, 34\), expected \(steps, 32\): a Panda",
        ),
        (
            {"demo_1": {"states": np.zeros((5, 32)), "actions": np.zeros((4, 7))}},
            "demo_1 has broken states: not one for each action",
        ),
        (
            {"demo_1": {"states": np.full((5, 32), np.nan), "actions": np.zeros((5, 7))}},
            "demo_1 has broken states",
        ),
    ],
)
def test_broken_demonstrations_are_named(
    demos: dict[str, dict[str, np.ndarray]], message: str, tmp_path: Path
) -> None:
    skip_without_robosuite()
    with pytest.raises(DatasetError, match=message):
        read_recordings(write(tmp_path / "d.hdf5", demos, env="Lift"), "lift")


def test_a_door_stands_where_its_model_says_or_in_the_middle(tmp_path: Path) -> None:
    """The model is in the attribute or, in older files, in a folder beside; else it is guessed."""
    skip_without_robosuite()
    path = write_recording(tmp_path / "d.hdf5", "door")
    (given,) = read_recordings(path, "door")
    true = StateView.of(given.states[0])
    with h5py.File(path, "r+") as file:
        attributes = file["data/demo_1"].attrs
        (tmp_path / "models").mkdir()
        (tmp_path / "models/model_1.xml").write_text(attributes["model_file"])
        attributes["model_file"] = "model_1.xml"
    read_recordings.cache_clear()
    (beside,) = read_recordings(path, "door")
    np.testing.assert_array_equal(beside.states, given.states)
    (tmp_path / "models/model_1.xml").unlink()
    read_recordings.cache_clear()
    guessed = StateView.of(read_recordings(path, "door")[0].states[0])
    assert np.abs(guessed.goal - true.goal).max() < 0.05
    assert np.linalg.norm(guessed.goal - true.goal) > 1e-4
    assert guessed.goal_turn[:, 0] @ true.goal_turn[:, 0] > np.cos(0.126)
    np.testing.assert_array_equal(guessed.hand, true.hand)


def test_the_middle_is_within_what_robosuite_draws() -> None:
    skip_without_robosuite()
    environment = Robosuite("door")
    for seed in range(8):
        environment.reset(seed)
        door = environment.model.body(DOOR_BODY)
        w, _, _, z = door.quat
        place = np.array([*door.pos[:2], 2 * np.arctan2(z, w)])
        off = (place - DOOR_PLACE + np.pi) % (2 * np.pi) - np.pi
        assert (np.abs(off) <= (0.0101, 0.0101, 0.1251)).all()


@pytest.mark.parametrize("task", ["lift", "door"])
def test_recorded_states_are_seen_as_they_were(task: str, tmp_path: Path) -> None:
    skip_without_robosuite()
    (recording,) = read_recordings(write_recording(tmp_path / "d.hdf5", task), task)
    start_E = Robosuite(task).reset(1000)[ENVIRONMENT_STATE]
    np.testing.assert_allclose(recording.states[0], start_E, atol=1e-5)
    assert not recording.closes[0]
    assert recording.closes.any()
    assert len(recording.states) == len(recording.closes) == len(recording.sent)
    assert 0.01 < np.abs(recording.sent).max() < 0.0501, "an action of 1 sends the hand 5 cm"
