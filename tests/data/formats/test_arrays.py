"""Datasets that are arrays in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oatkit
from oatkit import DatasetError

EPISODES = [np.arange(12.0).reshape(6, 2), np.arange(8.0).reshape(4, 2)]


def test_a_list_of_arrays_is_a_dataset() -> None:
    dataset = oatkit.open_dataset(EPISODES, fps=20)
    assert (len(dataset), dataset.action_dim, dataset.state_dim, dataset.fps) == (2, 2, 0, 20)
    for episode, wanted in zip(dataset, EPISODES, strict=True):
        np.testing.assert_array_equal(episode.actions, wanted)
    again, other = oatkit.open_dataset(EPISODES), oatkit.open_dataset(EPISODES[::-1])
    assert again.path == dataset.path != other.path
    assert again.fingerprint == dataset.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        (EPISODES[0], [6]),
        (np.zeros((3, 5, 2)), [5, 5, 5]),
        (torch.zeros(3, 5, 2), [5, 5, 5]),
        ([torch.zeros(5, 2), torch.zeros(7, 2)], [5, 7]),
        ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [3]),
        (tuple(EPISODES), [6, 4]),
    ],
)
def test_one_array_is_one_episode_or_several(given: object, lengths: list[int]) -> None:
    dataset = oatkit.open_dataset(given)
    assert dataset.episode_lengths.tolist() == lengths


def test_columns_and_tasks() -> None:
    dataset = oatkit.open_dataset(
        {"action": EPISODES, "observation.state": EPISODES, "task": ["open", "close"]}
    )
    assert dataset.state_dim == 2
    assert [episode.task for episode in dataset] == ["open", "close"]
    assert dataset.action.names == ("action_0", "action_1")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"moves": EPISODES}, "the arrays: unknown key .action.; known, closest first: moves"),
        ([np.zeros((4, 2)), np.zeros((4, 3))], r"'action' of episode 1 is \(4, 3\), expected"),
        (np.zeros(4), r"'action' of episode 0 is \(4,\), expected"),
        ({"action": EPISODES, "observation.state": EPISODES[0]}, "has other lengths than 'action'"),
        ({"action": EPISODES, "task": ["open"]}, "there are 1 tasks for 2 episodes"),
        (["a", "b"], "'action' is no array of numbers"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(given: object, problem: str) -> None:
    with pytest.raises(DatasetError, match=problem):
        oatkit.open_dataset(given)
