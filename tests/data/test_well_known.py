"""Columns that are found by well-known names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data import open_dataset
from oatkit.data.well_known import find_action, find_state
from oatkit.errors import DatasetError


def test_the_one_known_name_is_taken() -> None:
    assert find_action({"actions": 1, "reward": 2}, "here") == "actions"
    assert find_state(["observation/state", "actions"]) == ("observation/state",)
    assert find_state(["observations/qpos", "observations/qvel"]) == ("observations/qpos",)


def test_of_several_states_none_is_taken() -> None:
    assert find_state(["state", "qpos"]) == ()


def test_several_actions_are_an_error() -> None:
    with pytest.raises(
        DatasetError, match=r"here has action and actions: say which .* --action-key"
    ):
        find_action(["action", "actions"], "here")


def test_no_action_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(DatasetError, match="unknown key 'action'; known, closest first: acts"):
        find_action(["acts"], "here")


@pytest.mark.parametrize(
    ("action", "state"), [("actions", "qpos"), ("action", "observation/state")]
)
def test_a_dataset_opens_without_flags(tmp_path: Path, action: str, state: str) -> None:
    rng = np.random.default_rng(0)
    for episode in range(2):
        values = {action: rng.normal(size=(6, 3)), state: rng.normal(size=(6, 2))}
        np.savez(tmp_path / f"{episode}.npz", **values)
    dataset = open_dataset(tmp_path)
    assert dataset.state is not None
    assert (dataset.action.keys, dataset.state.keys) == ((action,), (state,))


def test_arrays_in_memory_are_known_alike() -> None:
    dataset = open_dataset({"actions": np.ones((5, 2)), "state": np.ones((5, 1))})
    assert dataset.state is not None
    assert (dataset.action.keys, dataset.state.keys) == (("actions",), ("state",))
