"""The place of a robot in what a network for several reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data import Normalizer
from oatkit.policies.observation.embodiment import Embodiment
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation

PLACE = Embodiment(
    name="arm",
    state_dim=5,
    camera_sizes=((8, 10), (6, 6)),
    tasks=("arm: open", "arm: shut", "hand"),
    chunk_shape=(4, 7),
)


def spec_of(state_dim: int, num_cameras: int) -> ObservationSpec:
    state = Normalizer("identity", np.zeros(state_dim), np.full(state_dim, 2.0))
    cameras = {f"own {number}": (12, 14) for number in range(num_cameras)}
    return ObservationSpec(2, state, cameras, ("open", "shut"), PLACE)


@given(st.integers(1, 5), st.integers(0, 2), st.sampled_from(["open", "shut"]))
def test_observations_are_padded_to_those_of_the_network(
    state_dim: int, num_cameras: int, task: str
) -> None:
    spec = spec_of(state_dim, num_cameras)
    given_state = np.random.default_rng(0).normal(size=(3, 2, state_dim)).astype(np.float32)
    blank = blank_observation(spec, 3)
    observation = {**blank, "observation.state": given_state, "task": task}
    read = read_observation(spec, observation)
    np.testing.assert_allclose(read.state[..., :state_dim], given_state / 2)
    assert (read.state[..., state_dim:] == 0).all()
    assert [tuple(image.shape[-2:]) for image in read.images] == [(8, 10), (6, 6)]
    assert all(image.dtype == torch.uint8 for image in read.images)
    assert read.is_seen.sum(dim=-1).unique().tolist() == [num_cameras]
    assert read.is_seen[..., :num_cameras].all()
    assert PLACE.tasks[int(read.task[0])] == f"arm: {task}"
    start = spec.start_state(read)
    assert start is not None
    np.testing.assert_allclose(start, given_state[:, -1], rtol=1e-6)


def test_the_network_reads_what_all_robots_need() -> None:
    spec = spec_of(3, 1)
    network = spec.network
    assert (network.state_dim, len(network.cameras), network.tasks) == (5, 2, PLACE.tasks)
    assert network.network is network
    again = ObservationSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again.to_json() == spec.to_json()
    assert again.embodiment == PLACE


def test_further_tasks_come_behind_those_of_all_robots() -> None:
    more = spec_of(3, 1).with_more_tasks(("wave", "open"))
    assert more.tasks == ("open", "shut", "wave")
    assert more.embodiment is not None
    assert more.embodiment.tasks == (*PLACE.tasks, "arm: wave")
    with pytest.raises(ValueError, match="unknown task 'jump'"):
        read_observation(more, {**blank_observation(more, 1), "task": "jump"})
