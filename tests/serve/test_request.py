"""Messages become requests, or a sentence that says what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oatkit_client.wire import pack

from oatkit.policies import Policy
from oatkit.serve.request import Request, RequestReader, read_message
from oatkit.serve.request_keys import request_keys
from oatkit.types import Sampling
from tests.policies import tiny
from tests.serve.slow import make_policy

TASK = "open the door"
STATE = np.arange(5, dtype=np.float64)
IMAGE = np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8)
GOOD = {
    "observation/state": STATE,
    "observation/front_image": IMAGE,
    "prompt": TASK,
}
COMMITTED = np.ones((2, tiny.ACTION_DIM))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return make_policy(Path(tmp_path_factory.mktemp("policy")), history=2, cameras=("front",))


def read(policy: Policy, message: Any, *changes: str, **settings: Any) -> Request:
    keys = request_keys(policy.spec, changes)
    return RequestReader(policy, keys, **settings).read(read_message(pack(message)), received=10.0)


def expected(policy: Policy, observation: dict[str, Any]) -> list[Any]:
    """What the policy reads of a batch of one with its history."""
    batch = {key: np.stack([value, value])[None] for key, value in observation.items()}
    return [tensor.tolist() for tensor in policy.read(batch | {"task": [TASK]}).tensors()]


def found(request: Request) -> list[Any]:
    return [tensor.tolist() for tensor in request.observations.tensors()]


def test_openpis_keys_become_lerobots(policy: Policy) -> None:
    request = read(policy, GOOD)
    assert found(request) == expected(
        policy, {"observation.state": STATE, "observation.images.front": IMAGE}
    )
    assert not request.observations.is_single_frame
    assert "reads 2 frames and got one, which was repeated" in request.warnings[0]
    assert (request.budget, request.deadline, request.is_reset) == (None, None, False)


def test_a_leading_time_axis_is_the_history(policy: Policy) -> None:
    frames = np.stack([STATE, STATE + 1])
    images = np.stack([IMAGE, IMAGE + 1])
    request = read(policy, {**GOOD, "observation/state": frames, "observation/front_image": images})
    assert request.warnings == ()
    batch = {"observation.state": frames[None], "observation.images.front": images[None]}
    wanted = policy.read(batch | {"task": [TASK]})
    assert found(request) == [tensor.tolist() for tensor in wanted.tensors()]


def test_other_names_of_the_same_keys(policy: Policy) -> None:
    message = {
        "observation.state": STATE.tolist(),
        "observation.images.front": IMAGE,
        "task": np.str_(TASK),
    }
    assert found(read(policy, message)) == found(read(policy, GOOD))


def test_map_renames_and_ignores_keys(policy: Policy) -> None:
    message = {"joints": STATE, "observation/front": IMAGE, "prompt": TASK, "extra": 3}
    request = read(policy, message, "joints=observation.state", "extra=")
    assert found(request) == found(read(policy, GOOD))


def test_an_observation_is_read_once(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(observation: Any) -> Any:
        calls.append(observation)
        return type(policy).read(policy, observation)

    monkeypatch.setattr(policy, "read", count)
    request = read(policy, GOOD)
    policy.predict_action_chunk(request.observations)
    assert len(calls) == 1


def test_requests_go_together_where_one_prediction_answers_both(policy: Policy) -> None:
    def key(**options: Any) -> Any:
        return read(policy, {**GOOD, **options}, sampling=Sampling(0.5)).batch_key

    assert key() == key(reset=True, sampling={"temperature": 0.5})
    assert key(deadline_ms=1) == key(deadline_ms=2)
    assert key(sampling={"seed": 1}) == key(sampling={"seed": 2})
    others = [{}, {"budget": 2}, {"deadline_ms": 1}, {"sampling": {"top_p": 0.5}}]
    others += [{"sampling": {"seed": 1}}, {"observation/front_image": IMAGE / 255}]
    others += [{"draws": 2}, {"committed": COMMITTED}, {"committed": COMMITTED[:1]}]
    assert key(committed=COMMITTED) == key(committed=COMMITTED + 1)
    assert len({key(**options) for options in others}) == len(others)


def test_sampling_rules_that_are_left_out_are_the_servers(policy: Policy) -> None:
    own = Sampling(temperature=0.5, top_k=3, seed=7)
    assert read(policy, GOOD, sampling=own).sampling == own
    given = {"sampling": {"top_k": None, "top_p": np.float32(0.5), "seed": np.int64(2)}}
    assert read(policy, {**GOOD, **given}, sampling=own).sampling == Sampling(0.5, None, 0.5, 2)
    assert read(policy, {**GOOD, "sampling": None}, sampling=own).sampling == own


def test_budget_deadline_and_reset(policy: Policy) -> None:
    more = {"budget": np.int64(4), "deadline_ms": 20, "reset": True}
    request = read(policy, {**GOOD, **more}, budget=2)
    assert (request.budget, request.is_reset) == (4, True)
    assert request.deadline == pytest.approx(10.02)
    assert read(policy, {**GOOD, "budget": 4.0}).budget == 4
    assert read(policy, GOOD, budget=2).budget == 2
    assert len(request.warnings) == 1, "this policy can stop early"


def test_draws_and_committed_actions(policy: Policy) -> None:
    plain = read(policy, GOOD | {"draws": None, "committed": None})
    assert (plain.draws, plain.committed, plain.is_plain) == (1, None, True)
    request = read(policy, GOOD | {"draws": np.int64(3), "committed": COMMITTED.tolist()})
    assert (request.draws, request.is_plain) == (3, False)
    assert request.committed is not None
    assert (request.committed.dtype, request.committed.tolist()) == (np.float32, COMMITTED.tolist())
    assert read(policy, GOOD | {"committed": COMMITTED[:0]}).committed is None


def test_committed_actions_are_for_tokens_with_prefixes(tmp_path: Path) -> None:
    whole = make_policy(tmp_path, kind="bin")
    message = {"observation/state": STATE, "prompt": TASK, "committed": COMMITTED}
    problem = (
        "this policy takes no committed actions, which are for tokens whose prefixes decode, such "
        "as those of oat: ask without committed"
    )
    with pytest.raises(ValueError, match=problem):
        read(whole, message)
    assert read(whole, message | {"committed": COMMITTED[:0]}).committed is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"observation/wrist_image": IMAGE}, "has the key 'observation/wrist_image', expected "),
        (
            {b"x": IMAGE},
            "expected observation/front_image, observation/state, prompt and",
        ),
        ({"observation.state": STATE}, "observation.state twice"),
        (
            {"observation/state": STATE[:4]},
            r"observation/state is \(4,\), expected \(5,\) or \(2, 5\)",
        ),
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
        ({"budget": "all"}, "budget is 'all', expected a number of tokens or Euler steps, or"),
        ({"budget": 2.5}, "budget is 2.5"),
        ({"budget": True}, "budget is True"),
        ({"budget": np.zeros(3)}, "budget is array"),
        ({"deadline_ms": 0}, "deadline_ms is 0, expected more than 0 milliseconds"),
        ({"deadline_ms": float("nan")}, "deadline_ms is nan"),
        ({"deadline_ms": "soon"}, "deadline_ms is 'soon'"),
        ({"draws": 0}, "draws is 0, expected a number from 1 to 64"),
        ({"draws": 65}, "draws is 65, expected a number from 1 to 64"),
        ({"draws": "many"}, "draws is 'many', expected a number from 1 to 64"),
        ({"draws": 2, "tokens_only": True}, "draws are chunks: ask without tokens_only, or for"),
        (
            {"committed": COMMITTED[:, :2]},
            r"committed is \(2, 2\), expected \(steps, 3\), and at most 8 steps",
        ),
        ({"committed": COMMITTED[0]}, r"committed is \(3,\), expected \(steps, 3\)"),
        ({"committed": np.ones((9, 3))}, r"committed is \(9, 3\), expected .* at most 8 steps"),
        ({"committed": COMMITTED * np.nan}, "committed is not finite"),
        ({"committed": COMMITTED * 1e300}, "committed is not finite"),
        ({"committed": "left"}, "committed holds <U4, expected numbers"),
        ({"committed": [[1], [2, 3]]}, "committed is no array"),
        ({"reset": "yes"}, "reset is 'yes', expected true or false"),
        ({"sampling": 3}, "sampling is 3, expected a dict with any of temperature, top_k, top_p"),
        ({"sampling": {"topk": 3}}, "unknown sampling rule 'topk'; known, closest first: top_k"),
        ({"sampling": {"top_k": "few"}}, "top_k 'few', expected a whole number or None"),
        ({"sampling": {"top_k": 2.5}}, "top_k 2.5, expected a whole number or None"),
        ({"sampling": {"temperature": None}}, "temperature None, expected a number"),
        ({"sampling": {"temperature": True}}, "temperature True, expected a number"),
        ({"sampling": {"temperature": -1}}, "temperature is -1.0, expected 0 or more"),
        ({"sampling": {"seed": 1e300}}, "seed is 1000.*, expected 0 or more"),
    ],
)
def test_what_is_wrong_is_said(policy: Policy, changes: dict[Any, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(policy, GOOD | changes)


def test_a_state_of_another_size_is_answered_with_its_columns_and_some_of_its_names(
    policy: Policy,
) -> None:
    named = make_named(policy, ["observation.environment_state"], [f"x{i}" for i in range(39)])
    sentence = (
        r"observation/state is \(4,\), expected \(5,\) or \(2, 5\), read from "
        r"observation.environment_state in training: x0, x1, ..., x38$"
    )
    with pytest.raises(ValueError, match=sentence):
        read(named, GOOD | {"observation/state": STATE[:4]})


def make_named(policy: Policy, keys: list[str], names: list[str]) -> Policy:
    """The same policy as if it were trained on a state of these columns."""
    data = {"state_keys": keys, "state_names": names}
    return Policy(policy.model, policy.auto, policy.extras | {"data": data}, policy.execution)


def test_a_missing_key_is_named_as_requests_have_it(policy: Policy) -> None:
    message = {key: value for key, value in GOOD.items() if key != "observation/state"}
    with pytest.raises(ValueError, match="the observation has no 'observation/state'; it has"):
        read(policy, message)


def test_what_is_no_dict_of_msgpack() -> None:
    with pytest.raises(ValueError, match="a text frame, expected a binary one"):
        read_message("hello")
    with pytest.raises(ValueError, match="the message is a list, expected a dict"):
        read_message(pack([1]))
