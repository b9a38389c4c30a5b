"""Recordings of robosuite become what an expert sees; files that do not fit are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from oatkit.envs.robosuite import SCENES, Robosuite
from oatkit.errors import DatasetError
from oatkit.jobs.robosuite_recordings import read_recordings, recorded_task
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
    with pytest.raises(DatasetError, match=r"text.hdf5 cannot be read as HDF5"):
        recorded_task(tmp_path / "text.hdf5")
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


def test_a_door_without_a_place_is_named(tmp_path: Path) -> None:
    skip_without_robosuite()
    demos = {"demo_1": {"states": np.zeros((5, 23)), "actions": np.zeros((5, 7))}}
    with pytest.raises(DatasetError, match="does not say where its door stood"):
        read_recordings(write(tmp_path / "d.hdf5", demos, env="Door"), "door")


@pytest.mark.parametrize("task", ["lift", "door"])
def test_recorded_states_are_seen_as_they_were(task: str, tmp_path: Path) -> None:
    skip_without_robosuite()
    (recording,) = read_recordings(write_recording(tmp_path / "d.hdf5", task), task)
    start_E = Robosuite(task).reset(1000)[ENVIRONMENT_STATE]
    np.testing.assert_allclose(recording.states[0], start_E, atol=1e-5)
    assert not recording.closes[0]
    assert recording.closes.any()
    assert len(recording.states) == len(recording.closes)
