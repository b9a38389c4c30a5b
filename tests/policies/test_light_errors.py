"""What the light policy refuses: observations, options and configs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.policies import LightPolicy
from oatkit.policies.observation.observation_spec import IMAGES, STATE
from oatkit.types import Schedule
from tests.policies import tiny


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
        policy.predict_action_chunk(change(tiny.batch(policy, dataset, 2)))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("oat-pow2", {"budget": 0}, "budget 0 is outside 1 .. 8"),
        ("oat-pow2", {"budget": 9}, "budget 9 is outside 1 .. 8"),
        ("oat-pow2", {"budget": "all"}, "budget is 'all', expected a number of tokens or 'auto'"),
        ("oat-pow2", {"schedule": Schedule.one_shot(9)}, "the schedule ends at 9 tokens, oat-pow2"),
        (
            "oat-pow2",
            {"schedule": Schedule.pow2(4), "budget": 5},
            r"budget 5 is outside 1 \.\. 4, where the schedule ends at 4",
        ),
        ("oat-pow2", {"deadline_ms": 0}, "deadline_ms is 0, expected more than 0"),
        ("bin", {"budget": 5}, r"bin decodes only all of its tokens: budget 5 is none of \[24\]"),
        ("quest", {"budget": "auto"}, "quest decodes only all of its tokens: budget auto is none"),
        ("fast", {"budget": 3}, "fast decodes only all of its tokens: budget 3 is none of"),
    ],
)
@pytest.mark.filterwarnings("ignore:the policy was trained")
def test_bad_options(
    kind: str,
    options: dict[str, Any],
    message: str,
    policies: dict[str, LightPolicy],
    dataset: Dataset,
) -> None:
    policy = policies[kind]
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(tiny.batch(policy, dataset), **options)


def test_a_tokenizer_of_another_action_dim(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, other)
    with pytest.raises(ValueError, match="unknown camera 'frnt'"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("frnt",))
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, reads_state=False)
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, bin has 24"):
        LightPolicy.for_dataset(replace(tiny.CONFIG, endpoints=(8,)), tokenizer, dataset)
    with pytest.raises(ValueError, match="width 16 is not divided by 3 heads"):
        replace(tiny.CONFIG, num_heads=3)
    with pytest.raises(ValueError, match="crop_size 36 exceeds image_size 20"):
        replace(tiny.CONFIG, image_size=20)
    with pytest.raises(ValueError, match="crop_size is 32, expected at least 33"):
        replace(tiny.CONFIG, crop_size=32)
