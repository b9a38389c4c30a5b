"""What a policy observes, and how it is stored."""

from __future__ import annotations

import json

import numpy as np
import pytest

from oatkit.data import Dataset
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation
from tests.policies import tiny


def make(dataset: Dataset) -> ObservationSpec:
    return ObservationSpec.for_dataset(dataset, history=2, cameras=("front",))


def test_it_is_that_of_the_dataset_and_comes_back_from_json(dataset: Dataset) -> None:
    spec = make(dataset)
    assert (spec.history, spec.state_dim) == (2, tiny.STATE_DIM)
    assert spec.cameras == {"front": (tiny.HEIGHT, tiny.WIDTH)}
    assert set(spec.tasks) == set(tiny.TASKS)
    again = ObservationSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again.to_json() == spec.to_json()
    assert spec.describe() == f"state of {tiny.STATE_DIM}, camera `front`, 20 x 24"


def test_a_blank_observation_can_be_read(dataset: Dataset) -> None:
    spec = make(dataset)
    read = read_observation(spec, blank_observation(spec, 3))
    assert read.state.shape == (3, 2, tiny.STATE_DIM)
    assert read.images[0].shape == (3, 2, 3, tiny.HEIGHT, tiny.WIDTH)
    assert not read.is_single_frame
    assert not read.state.any(), "the state amid the training data"


def test_only_what_the_policy_reads_is_selected(dataset: Dataset) -> None:
    spec = make(dataset)
    frame = {key: value[0] for key, value in blank_observation(spec, 1).items()}
    assert set(spec.select({**frame, "observation.depth": np.zeros(3)})) == set(frame)
    del frame["task"]
    with pytest.raises(ValueError, match="the observation has no 'task'; it has"):
        spec.select(frame)


def test_further_tasks_come_behind_the_known_ones(dataset: Dataset) -> None:
    spec = make(dataset)
    more = spec.with_more_tasks(("wave", spec.tasks[0]))
    assert more.tasks == (*spec.tasks, "wave")
    assert more.cameras == spec.cameras


def test_a_policy_must_observe_something() -> None:
    with pytest.raises(ValueError, match="history is 0, expected at least 1"):
        ObservationSpec(0, None, {"front": (8, 8)}, ())
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        ObservationSpec(1, None, {}, ())


def test_a_column_of_the_dataset_is_no_state(dataset: Dataset) -> None:
    spec = ObservationSpec.for_dataset(dataset, history=1)
    hint = "observation.state is all that training read as the state, such as 'observation.objects'"
    with pytest.raises(ValueError, match=hint):
        spec.select({"observation.objects": [0.0], "task": "lift"})
    with pytest.raises(ValueError, match=r"and the policy reads \['observation.state'.*\]$"):
        spec.select({"task": "lift"})
