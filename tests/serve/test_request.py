"""Messages become requests, or a sentence that says what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oatkit_client.wire import pack

from oatkit.policies import LightPolicy
from oatkit.serve.key_map import KeyMap
from oatkit.serve.request import Request, RequestReader
from tests.policies import tiny
from tests.serve.slow import make_policy

STATE = np.arange(5, dtype=np.float64)
IMAGE = np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8)
GOOD = {
    "observation/state": STATE,
    "observation/front_image": IMAGE,
    "prompt": "open the door",
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> LightPolicy:
    return make_policy(Path(tmp_path_factory.mktemp("policy")), history=2, cameras=("front",))


def read(policy: LightPolicy, message: Any, *changes: str, **settings: Any) -> Request:
    keys = KeyMap.for_policy(policy.spec, changes)
    return RequestReader(policy, keys, **settings).read(pack(message), received=10.0)


def test_openpis_keys_become_lerobots(policy: LightPolicy) -> None:
    request = read(policy, GOOD)
    assert set(request.observation) == {"observation.state", "observation.images.front", "task"}
    assert request.observation["observation.state"].tolist() == [STATE.tolist()] * 2
    assert request.observation["observation.images.front"].shape == (2, *IMAGE.shape)
    assert request.observation["task"] == "open the door"
    assert request.is_repeated
    assert (request.budget, request.deadline, request.is_reset) == (None, None, False)


def test_a_leading_time_axis_is_the_history(policy: LightPolicy) -> None:
    frames = np.stack([STATE, STATE + 1])
    message = {
        **GOOD,
        "observation/state": frames,
        "observation/front_image": np.stack([IMAGE] * 2),
    }
    request = read(policy, message)
    assert not request.is_repeated
    np.testing.assert_array_equal(request.observation["observation.state"], frames)


def test_other_names_of_the_same_keys(policy: LightPolicy) -> None:
    message = {
        "observation.state": STATE.tolist(),
        "observation.images.front": IMAGE,
        "task": np.str_("close the door"),
    }
    assert read(policy, message).observation["task"] == "close the door"


def test_map_renames_and_ignores_keys(policy: LightPolicy) -> None:
    message = {"joints": STATE, "observation/front": IMAGE, "prompt": "open the door", "extra": 3}
    request = read(policy, message, "joints=observation.state", "extra=")
    assert set(request.observation) == {"observation.state", "observation.images.front", "task"}


@pytest.mark.parametrize("change", ["joints", "=task", "budget=task", "joints=observation.stat"])
def test_maps_that_mean_nothing(policy: LightPolicy, change: str) -> None:
    with pytest.raises(ValueError, match=f"--map {change}: "):
        KeyMap.for_policy(policy.spec, [change])


def test_budget_deadline_and_reset(policy: LightPolicy) -> None:
    more = {"budget": np.int64(4), "deadline_ms": 20, "reset": True}
    request = read(policy, {**GOOD, **more}, budget=2)
    assert (request.budget, request.is_reset) == (4, True)
    assert request.deadline == pytest.approx(10.02)
    assert read(policy, {**GOOD, "budget": 4.0}).budget == 4
    assert read(policy, GOOD, budget=2).budget == 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"observation/wrist_image": IMAGE}, "has the key 'observation/wrist_image', expected "),
        (
            {b"x": IMAGE},
            "expected observation/front_image, observation/state, prompt and",
        ),
        ({"observation.state": STATE}, "observation.state twice"),
        ({"observation/state": STATE[:4]}, r"observation/state is \(4,\), expected \(5,\)"),
        ({"observation/state": STATE * np.nan}, "observation/state is not finite"),
        ({"observation/state": np.zeros((3, 2, 5))}, "or that with a leading time axis"),
        (
            {
                "observation/state": np.zeros((3, 5)),
                "observation/front_image": np.stack([IMAGE] * 3),
            },
            r"observation/state is \(3, 5\): 3 frames, the policy reads 2",
        ),
        ({"observation/state": np.zeros((2, 5))}, "some parts of the observation have a leading"),
        ({"observation/state": "left"}, "observation/state holds <U4, expected numbers"),
        ({"observation/state": [[1], [2, 3]]}, "observation/state is no array"),
        ({"observation/state": {"x": 1}}, "observation/state holds object"),
        ({"observation/front_image": IMAGE[:3]}, "observation/front_image is .*expected"),
        ({"observation/front_image": IMAGE + 2.0}, "values from 2 to 2, expected floats from 0"),
        ({"prompt": 3}, "the prompt is 3, expected text"),
        ({"prompt": "dance"}, "unknown task 'dance'; known, closest first"),
        ({"budget": 99}, r"budget 99 is outside 1 \.\. 8"),
        ({"budget": "all"}, "budget is 'all', expected a number of tokens or 'auto'"),
        ({"budget": 2.5}, "budget is 2.5"),
        ({"budget": True}, "budget is True"),
        ({"budget": np.zeros(3)}, "budget is array"),
        ({"deadline_ms": 0}, "deadline_ms is 0, expected more than 0 milliseconds"),
        ({"deadline_ms": float("nan")}, "deadline_ms is nan"),
        ({"deadline_ms": "soon"}, "deadline_ms is 'soon'"),
        ({"reset": "yes"}, "reset is 'yes', expected true or false"),
    ],
)
def test_what_is_wrong_is_said(policy: LightPolicy, changes: dict[Any, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(policy, GOOD | changes)


def test_a_missing_key_is_named_as_requests_have_it(policy: LightPolicy) -> None:
    message = {key: value for key, value in GOOD.items() if key != "observation/state"}
    with pytest.raises(ValueError, match="the observation has no 'observation/state'; it has"):
        read(policy, message)


def test_what_is_no_dict_of_msgpack(policy: LightPolicy) -> None:
    reader = RequestReader(policy, KeyMap.for_policy(policy.spec))
    with pytest.raises(ValueError, match="a text frame, expected a binary one"):
        reader.read("hello", 0.0)
    with pytest.raises(ValueError, match="the message is a list, expected a dict"):
        reader.read(pack([1]), 0.0)
