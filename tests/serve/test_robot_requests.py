"""A server that acts for several robots, each of which names itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from oatkit_client import Client, ClientError, LocalPolicy, ServerError

import oatkit
from oatkit.evaluation.remote_policy import RemotePolicy
from oatkit.jobs.model_export import export_model
from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.jobs.mixed_robots import HORIZON, trained_policies, two_robots

STATES = {"small": np.full(3, 0.01, np.float32), "large": np.full(5, 50.0, np.float32)}
GREEDY = {"temperature": 0}
MAX_BATCH = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    trained_policies(two_robots(), path)
    return path / "policy"


@pytest.fixture(scope="module")
def policies(folder: Path) -> dict[str, Policy]:
    return oatkit.load_policies(folder)


@pytest.fixture(scope="module")
def url(policies: dict[str, Policy]) -> Iterator[str]:
    with serving(policies, ServeConfig(port=0, max_batch=MAX_BATCH)) as address:
        yield address


def wanted(policy: Policy, name: str) -> np.ndarray:
    policy.reset()
    frame = {"observation.state": STATES[name]}
    return np.asarray(policy.predict_action_chunk(frame, sampling=Sampling(0)).chunk)


@pytest.mark.parametrize(("name", "dim"), [("small", 2), ("large", 5)])
def test_each_robot_gets_its_own_chunks(
    url: str, policies: dict[str, Policy], name: str, dim: int
) -> None:
    request = {"observation/state": STATES[name], "sampling": GREEDY}
    with Client(url, embodiment=name) as client:
        assert (client.metadata["action_dim"], client.metadata["state_dim"]) == (
            dim,
            len(STATES[name]),
        )
        assert list(client.metadata["embodiments"]) == ["small", "large"]
        reply = client.infer(request)
    np.testing.assert_allclose(reply["actions"], wanted(policies[name], name), rtol=1e-4, atol=1e-4)
    with Client(url) as client:
        same = client.infer({**request, "embodiment": name})
    np.testing.assert_allclose(same["actions"], reply["actions"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "acts for several robots: name one of small, large under the key 'embodiment'"),
        ("smal", "unknown embodiment 'smal'; known, closest first: small, large"),
        (7, "embodiment is 7, expected the name of a robot"),
        ("large", r"observation/state is \(3,\), expected \(5,\)"),
    ],
)
def test_a_wrong_robot_is_one_clear_sentence(url: str, name: object, message: str) -> None:
    with Client(url) as client, pytest.raises(ServerError, match=message):
        client.infer({"observation/state": STATES["small"], "embodiment": name})


def test_a_client_or_an_evaluation_of_an_unknown_robot_is_refused(url: str) -> None:
    with (
        Client(url, embodiment="third") as client,
        pytest.raises(ClientError, match="acts for the robots small, large, not for 'third'"),
    ):
        client.infer({})
    with pytest.raises(ValueError, match="acts for several robots, small, large: name one"):
        RemotePolicy(url)


def test_an_evaluation_elsewhere_acts_for_its_robot(url: str, policies: dict[str, Policy]) -> None:
    remote = RemotePolicy(url, embodiment="large")
    known = remote.evaluated([None])
    assert (known.action_dim, known.horizon) == (5, HORIZON)
    assert known.digest == policies["large"].digest
    batch = {"observation.state": np.tile(STATES["large"], (1, 2, 1))}
    how = {"budget": None, "schedule": None, "sampling": Sampling(0), "generator": [0]}
    how |= {"draws": 1, "committed": None}
    chunk = remote.predict_action_chunk(batch, **how).chunk  # type: ignore[arg-type]
    remote.close()
    np.testing.assert_allclose(chunk[0], wanted(policies["large"], "large"), rtol=1e-4, atol=1e-4)


def test_one_robot_alone_is_served_with_or_without_its_name(folder: Path) -> None:
    alone = oatkit.load_policy(folder / "small")
    request = {"observation/state": STATES["small"], "sampling": GREEDY}
    with serving(alone, ServeConfig(port=0, max_batch=1)) as url:
        for name in (None, "small"):
            with Client(url, embodiment=name) as client:
                assert client.infer(request)["actions"].shape == (HORIZON, 2)
        with Client(url) as client, pytest.raises(ServerError, match="unknown embodiment 'large'"):
            client.infer({**request, "embodiment": "large"})


@pytest.mark.parametrize("kind", ["light", "light-flow"])
def test_one_robot_runs_on_the_robot_itself(kind: str, tmp_path: Path) -> None:
    policies = trained_policies(two_robots(), tmp_path, kind)
    policy = policies["small"]
    export_model(policy, tmp_path / "onnx")
    local = LocalPolicy(tmp_path / "onnx")
    frame = {"observation/state": STATES["small"]}
    for observation in (frame, {**frame, "embodiment": "small"}):
        reply = local.infer(observation, sampling=None)
        assert reply["actions"].shape == (HORIZON, 2)
    from oatkit_client import Sampling as LocalSampling

    greedy = local.infer(frame, sampling=LocalSampling(temperature=0))["actions"]
    np.testing.assert_allclose(greedy, wanted(policy, "small"), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="this policy is for the robot 'small', not for 'large'"):
        local.infer({**frame, "embodiment": "large"})
