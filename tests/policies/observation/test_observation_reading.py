"""Reading an observation: what is refused, and that it is the one door to a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.observation.observation_reading import as_array, read_observation
from oatkit.policies.observation.observations import Observations
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.tiny import seeded


def _bad(**changes: Any) -> Any:
    return lambda o: {k: v for k, v in (o | changes).items() if v is not None}


FRONT = f"{IMAGES}front"


BAD = {
    "no state": (_bad(**{STATE: None}), r"the observation has no 'observation.state'; it has \["),
    "no image": (_bad(**{FRONT: None}), r"the observation has no 'observation.images.front'"),
    "no task": (_bad(task=None), "the observation has no 'task'"),
    "task None": (lambda o: o | {"task": None}, "the observation has no 'task'; it has"),
    "task number": (_bad(task=3), "unknown task '3'; known, closest first"),
    "ragged": (_bad(**{STATE: [[0.0], [1.0, 2.0]]}), "observation.state is no array: setting an"),
    "empty": (
        _bad(**{STATE: np.zeros((0, 2, 5)), FRONT: np.zeros((0, 2, 20, 24, 3), np.uint8)}),
        "the batch of observations is empty",
    ),
    "state dim": (
        _bad(**{STATE: np.zeros((2, 2, 4))}),
        r"observation.state is \(2, 2, 4\), expected \(5,\) for one frame or \(batch, 2, 5\)",
    ),
    "history": (_bad(**{STATE: np.zeros((2, 3, 5))}), r"observation.state is \(2, 3, 5\)"),
    "rank": (_bad(**{STATE: np.zeros((2, 5))}), r"observation.state is \(2, 5\)"),
    "NaN": (_bad(**{STATE: np.full((2, 2, 5), np.nan)}), "observation.state is not finite"),
    "text": (_bad(**{STATE: [["a"]]}), "observation.state holds <U1, expected numbers"),
    "image size": (
        _bad(**{FRONT: np.zeros((2, 2, 20, 25, 3), np.uint8)}),
        r"observation.images.front is \(2, 2, 20, 25, 3\), expected \(20, 24, 3\) for one frame",
    ),
    "image range": (
        _bad(**{FRONT: np.full((2, 2, 20, 24, 3), 200.0)}),
        "observation.images.front has values from 200 to 200, expected floats from 0 to 1",
    ),
    "image type": (
        _bad(**{FRONT: np.zeros((2, 2, 20, 24, 3), np.int64)}),
        "observation.images.front is torch.int64, expected uint8 or floats from 0 to 1",
    ),
    "image NaN": (
        _bad(**{FRONT: np.full((2, 2, 20, 24, 3), np.nan)}),
        "observation.images.front is not finite",
    ),
    "batch": (
        _bad(**{STATE: np.zeros((3, 2, 5))}),
        r"batch and history differ between parts of the observation: observation.state \(3, 2\)",
    ),
    "camera": (
        _bad(**{f"{IMAGES}frnt": np.zeros((2, 2, 20, 24, 3))}),
        "unknown camera 'frnt'; known, closest first: front",
    ),
    "task": (
        _bad(task=["open the dor", tiny.TASKS[0]]),
        "unknown task 'open the dor'; known, closest first: open the door, close the door",
    ),
    "tasks": (_bad(task=[tiny.TASKS[0]]), "there are 1 tasks for 2 observations"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_observations(case: str, dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset, cameras=("front",))
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        policy.read(change(tiny.batch(policy, dataset, 2)))


@pytest.fixture(scope="module")
def policy(dataset: Dataset) -> Policy:
    return tiny.make_policy("oat-pow2", dataset, cameras=("front",))


def test_what_was_read_predicts_the_same(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset, 3)
    given = policy.predict_action_chunk(observation, generator=seeded())
    read = policy.predict_action_chunk(policy.read(observation), generator=seeded())
    np.testing.assert_array_equal(read.ids, given.ids)
    np.testing.assert_array_equal(read.chunk, given.chunk)
    tensors = {key: torch.as_tensor(v) if key != "task" else v for key, v in observation.items()}
    answer = policy.predict_action_chunk(policy.read(tensors), generator=seeded())
    assert isinstance(answer.chunk, np.ndarray), "what was read is answered with numpy"


def test_requests_that_were_read_one_by_one_are_a_batch(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset, 3)
    rows = [policy.read(tiny.row(observation, index)) for index in range(3)]
    together = policy.predict_action_chunk(Observations.cat(rows), generator=seeded())
    given = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(together.ids, given.ids)


def test_one_frame_that_was_read_joins_the_history(policy: Policy, dataset: Dataset) -> None:
    batch = tiny.batch(policy, dataset, 2)
    arrays = {key: batch[key] for key in (STATE, f"{IMAGES}front")}
    frames = [
        {**{key: array[row, -1] for key, array in arrays.items()}, "task": batch["task"][row]}
        for row in range(2)
    ]
    found = []
    for prepare in (lambda frame: frame, policy.read):
        policy.reset()
        policy.observe(prepare(frames[0]))
        found.append(policy.predict_action_chunk(prepare(frames[1]), generator=seeded()))
    assert found[0].chunk.shape == (tiny.HORIZON, tiny.ACTION_DIM)
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    assert policy.read(frames[0]).is_single_frame
    assert not policy.read(batch).is_single_frame


def test_a_simulator_may_show_more(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset, 1)
    more = observation | {f"{IMAGES}wrist": np.zeros(3), "observation.force": np.zeros(1)}
    with pytest.raises(ValueError, match="unknown camera 'wrist'"):
        policy.read(more)
    assert len(policy.read(more, allow_more=True).images) == 1
    only = tiny.make_policy("klt", dataset)
    spec = only.spec.from_json({**only.spec.to_json(), "tasks": ["the only one"]})
    told = {STATE: observation[STATE], "task": ["another"]}
    with pytest.raises(ValueError, match="unknown task"):
        read_observation(spec, told)
    assert read_observation(spec, told, allow_more=True).task.tolist() == [0]


def test_only_numbers_are_arrays() -> None:
    assert as_array("state", [1, 2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="state holds <U1, expected numbers"):
        as_array("state", ["a"])
