from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def test_hdf5_demonstrations_are_in_numeric_order(tmp_path: Path) -> None:
    demos = make_demos(tuple(range(3, 15)))
    dataset = oatkit.open_dataset(datasets.write_robomimic(tmp_path / "d.hdf5", demos))
    assert [len(e) for e in dataset] == list(range(3, 15))


def test_libero_and_robomimic_states_are_their_proprioception(tmp_path: Path) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos((5,)))
    with h5py.File(path, "a") as file:
        demo = file["data/demo_0"]
        demo["obs/ee_pos"], demo["obs/ee_ori"] = np.ones((5, 3)), 2 * np.ones((5, 3))
        demo["obs/gripper_states"] = 3 * np.ones((5, 2))
    np.testing.assert_array_equal(oatkit.open_dataset(path)[0].state[0], [1, 1, 1, 2, 2, 2, 3, 3])


def test_old_robosuite_files_join_velocities_and_gripper(tmp_path: Path) -> None:
    path = tmp_path / "sawyer.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_1")
        file["data"].attrs.update({"env": "SawyerLift", "repository_version": "0.1.0"})
        demo["joint_velocities"], demo["gripper_actuations"] = np.ones((9, 7)), -np.ones((9, 1))
        demo["left_dpos"] = np.ones((9, 0))
        demo["states"] = np.zeros((9, 4))
    dataset = oatkit.open_dataset(path)
    assert dataset.action_dim == 8
    assert dataset.fps == 100
    assert dataset.format == "robosuite HDF5"
    assert dataset[0].task == "SawyerLift"
    np.testing.assert_array_equal(dataset[0].actions[0], [1, 1, 1, 1, 1, 1, 1, -1])


def test_columns_of_different_lengths(tmp_path: Path) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos())
    with h5py.File(path, "a") as file:
        del file["data/demo_1/states"]
        file["data/demo_1/states"] = np.zeros((6, 2))
    with pytest.raises(DatasetError, match=r"'states' of episode 1 \(demo_1\) is \(6, 2\)"):
        oatkit.open_dataset(path)


def test_hdf5_files_that_disagree(tmp_path: Path) -> None:
    folder = datasets.write_libero(tmp_path / "suite", make_demos())
    with h5py.File(folder / "other_demo.hdf5", "w") as file:
        file["data/demo_0/actions"] = np.zeros((5, 8))
    with pytest.raises(
        DatasetError,
        match=r"actions \(8,\): other_demo.hdf5; actions \(3,\): task_0_demo.hdf5\): open them one",
    ):
        oatkit.open_dataset(folder)


def make_hdf5(path: Path, build: Callable[[Any], None]) -> Path:
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.ones((5, 2))
        build(file)
    return path


def replace_actions(value: Any) -> Callable[[Any], None]:
    def build(file: Any) -> None:
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = value

    return build


HARMLESS: dict[str, Callable[[Any], Any]] = {
    "group in obs": lambda file: file.create_group("data/demo_0/obs/nested"),
    "stray dataset": lambda file: file.create_dataset("data/notes", data=[1]),
    "stray group": lambda file: file.create_group("data/meta"),
    "args a list": lambda file: file["data"].attrs.update({"env_args": "[1]"}),
    "args no JSON": lambda file: file["data"].attrs.update({"env_args": "{"}),
    "null kwargs": lambda file: file["data"].attrs.update({"env_args": '{"env_kwargs": null}'}),
    "null rate": lambda file: file["data"].attrs.update(
        {"env_args": '{"env_kwargs": {"control_freq": null}}'}
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_hdf5_with_harmless_oddities_opens(name: str, tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(make_hdf5(tmp_path / "d.HDF5", HARMLESS[name]))
    assert dataset[0].actions.shape == (5, 2)
    assert dataset.fps is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (replace_actions(1.0), "'actions' is a single number"),
        (replace_actions(np.zeros((0, 3))), "episode 0 has no frames"),
        (lambda file: file.move("data/demo_0", "data/other"), "holds no demonstrations"),
        (lambda file: (file.pop("data"), file.create_dataset("data", data=[1])), "no group 'data'"),
    ],
)
def test_strange_hdf5(build: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    path = make_hdf5(tmp_path / "d.hdf5", build)
    with pytest.raises(DatasetError, match=message) as caught:
        oatkit.open_dataset(path)
    assert "d.hdf5" in str(caught.value)
