from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from tests.data import datasets
from tests.data.datasets import make_demos


def test_names_come_from_lists_and_dicts(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_lerobot_v21(tmp_path / "d", make_demos()))
    assert dataset.action.names == ("x", "y", "z")
    assert dataset.state is not None
    assert dataset.state.names == ("p", "q")
    unnamed = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    assert unnamed.action.names == ("action_0", "action_1", "action_2")


def test_columns_and_dimensions_can_be_chosen(tmp_path: Path) -> None:
    demos = make_demos()
    path = datasets.write_robomimic(tmp_path / "d.hdf5", demos)
    dataset = oatkit.open_dataset(
        path, action_key=["obs/object", "actions"], state_key="actions", action_dims=[4, "object_0"]
    )
    np.testing.assert_array_equal(dataset[0].actions[:, 0], demos[0].actions[:, 2])
    np.testing.assert_array_equal(dataset[0].actions[:, 1], demos[0].state[:, 0])
    np.testing.assert_array_equal(dataset[0].state, demos[0].actions)
    np.testing.assert_array_equal(dataset[1].column("states"), demos[1].state)
    with pytest.raises(ValueError, match="unknown dimension 'obj'; known, closest first: object_0"):
        oatkit.open_dataset(path, action_key="obs/object", action_dims=["obj"])
    with pytest.raises(ValueError, match="dimension 3 does not exist: there are 3"):
        oatkit.open_dataset(path, action_dims=[3])
    with pytest.raises(ValueError, match="no dimensions were selected"):
        oatkit.open_dataset(path, action_dims=[])
    with pytest.raises(oatkit.DatasetError, match=r"unknown column 'action'; .* first: actions"):
        oatkit.open_dataset(path, action_key="action")
