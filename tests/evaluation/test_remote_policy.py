"""A policy elsewhere acts as the same policy here, and what can go wrong is one sentence."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from oatkit_client.wire import pack
from websockets.sync.server import ServerConnection

import oatkit
from oatkit.errors import DecodeError, RemoteError
from oatkit.evaluation import remote_policy
from oatkit.evaluation.remote_policy import RemotePolicy
from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.types import PolicyEvaluation, Sampling, Schedule
from oatkit.types.observation_keys import IMAGES, STATE, TASK
from tests.evaluation.foreign_server import answering, openpi_server
from tests.evaluation.plane import PLANE, TASKS
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.plane_evaluations import outcomes

ASKED: dict[str, Any] = {
    "budget": 4,
    "schedule": None,
    "sampling": Sampling(seed=0),
    "generator": (5, 6),
    "draws": 1,
    "committed": None,
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return oatkit.load_policy(save_plane_policy(tmp_path_factory.mktemp("plane")))


@pytest.fixture(scope="module")
def url(here: Policy) -> Iterator[str]:
    with serving(here, ServeConfig(port=0, max_batch=2)) as url:
        yield url


def batch(count: int = 2) -> dict[str, Any]:
    state = np.random.default_rng(0).uniform(0, 2, (count, 2, 4)).astype(np.float32)
    return {STATE: state, TASK: [list(TASKS.values())[i % 2] for i in range(count)]}


def evaluated(policy: Any, **changed: Any) -> PolicyEvaluation:
    wanted = {"tasks": ("near",), "episodes": 1, "budgets": (4,), "workers": 1} | changed
    return oatkit.evaluate(policy, PLANE, **wanted)


def bits(record: PolicyEvaluation) -> list[dict[str, Any]]:
    """Everything about the episodes but their times."""
    return [asdict(replace(e, latency_ms=0.0)) for e in record.episodes]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_episode_there_is_the_episode_here_to_the_last_bit(
    here: Policy, url: str, temperature: float
) -> None:
    """One episode at a time, because chunks that are decoded together differ in their last bits."""
    sampling = Sampling(temperature, seed=3)
    for budgets in ((1,), (None,)):
        there = evaluated(url, budgets=budgets, sampling=sampling)
        same = evaluated(here, budgets=budgets, sampling=sampling)
        assert bits(there) == bits(same)
        assert there.settings == same.settings
        assert (there.policy, there.kind, there.device) == (url, same.kind, same.device)


@pytest.mark.parametrize(
    "how", [{"delay": 2, "commit": True}, {"draws": 3}, {"delay": 2, "commit": True, "draws": 2}]
)
def test_chunks_that_go_on_from_others_are_the_same_there(
    here: Policy, url: str, how: dict[str, Any]
) -> None:
    there, same = evaluated(url, execute=2, **how), evaluated(here, execute=2, **how)
    assert bits(there) == bits(same)
    assert there.settings == same.settings
    assert bits(same) != bits(evaluated(here, execute=2, delay=how.get("delay", 0)))


def test_a_server_that_takes_no_committed_actions() -> None:
    message = r"ws://\S+ takes no committed actions, which are for tokens whose prefixes decode"
    with openpi_server() as (url, _), pytest.raises(ValueError, match=message):
        evaluated(url, budgets=(), delay=1, commit=True)
    with openpi_server() as (url, _), pytest.raises(ValueError, match="draws one chunk: leave"):
        evaluated(url, budgets=(), draws=2)


def test_many_episodes_there_and_here(here: Policy, url: str) -> None:
    wanted: dict[str, Any] = {"tasks": ("near", "far"), "episodes": 3, "budgets": (1, 4)}
    assert outcomes(evaluated(url, **wanted)) == outcomes(evaluated(here, **wanted))


def test_a_chunk_is_the_same_for_the_same_seed(here: Policy, url: str) -> None:
    remote = RemotePolicy(url)
    with closing(remote):
        found = remote.predict_action_chunk(batch(), **ASKED)
    for row in range(2):
        own = {STATE: batch()[STATE][row : row + 1], TASK: batch()[TASK][row : row + 1]}
        expected = here.predict_action_chunk(own, **ASKED | {"generator": (5 + row,)})
        np.testing.assert_allclose(found.chunk[row], expected.chunk[0], atol=1e-5)
        assert (found.budget[row], found.calls[row], found.attempts[row]) == (4, 4, 1)
        assert found.ids[row].tolist() == expected.ids[0].tolist()
    assert found.elapsed_ms > 0


def test_what_a_server_of_openpi_does_not_tell_is_not_asked() -> None:
    with openpi_server() as (url, messages):
        record = evaluated(url, budgets=())
    assert all(set(message) == {"observation/state", "prompt"} for message in messages)
    assert {m["prompt"] for m in messages} == {TASKS["near"]}
    assert {m["observation/state"].shape for m in messages} == {(2,)}
    (episode,) = record.episodes
    assert (episode.budget, episode.tokens, episode.calls) == (None, 0, 1)
    assert record.budgets[0].steps_per_query == 5  # half of its chunk
    unknown = {"head": "server", "horizon": None, "digest": None, "execute": None}
    assert {key: record.settings[key] for key in unknown} == unknown


def test_images_for_a_server_of_openpi() -> None:
    keys = ["observation/image=observation.images.top", "s=observation.state"]
    with openpi_server() as (url, messages):
        remote = RemotePolicy(url, keys=keys, image_size=(6, 8))
        evaluated(remote, budgets=(), execute=10, state_keys=("observation.environment_state",))
    assert {m["observation/image"].shape for m in messages} == {(6, 8, 3)}
    assert {tuple(m) for m in messages} == {("s", "observation/image", "prompt")}
    with openpi_server() as (url, _), pytest.raises(ValueError, match="camera of plane 'side'"):
        evaluated(RemotePolicy(url, keys=[f"x={IMAGES}side"]), budgets=())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budgets": (9,)}, r"says: budget 9 is outside 1 \.\. 4"),
        ({"budgets": ("auto",)}, "says: budget 'auto' has no thresholds"),
        ({"execute": "auto"}, "`oatkit policy calibrate POLICY --data DATA` finds it"),
        ({"draws": 65}, "says: draws is 65, expected a number from 1 to 64"),
        ({"schedule": Schedule((1, 4))}, "--endpoints is not for a policy elsewhere"),
        ({"head": "tokens"}, "--head is not"),
        ({"decoding": "strict"}, "--decoding is not"),
        ({"device": "cpu"}, "--device is not"),
        ({"dtype": "float32"}, "--dtype is not"),
        ({"state_keys": (STATE,)}, "the policy reads a state of 4, observation.state of plane has"),
        ({"tasks": ("nearr",)}, "unknown plane task 'nearr'"),
    ],
)
def test_what_does_not_fit_our_server(url: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, RemoteError), match=message):
        evaluated(url, **change)


def test_another_simulator_does_not_fit(url: str) -> None:
    with pytest.raises(ValueError, match="is for 2 action dimensions, metaworld has 4"):
        oatkit.evaluate(url, "metaworld")
    with openpi_server(action_dim=7) as (other, _):
        message = r"the chunk for near, episode 0, step 0 is \(10, 7\), expected \(1 or more, 2\)"
        with pytest.raises(ValueError, match=message):
            evaluated(other, budgets=())
        with pytest.raises(ValueError, match="has no budgets: leave --budgets out"):
            evaluated(other, budgets=(1,))


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"\xc1", "does not speak openpi's protocol: the message is no msgpack"),
        (pack([1]), "does not speak openpi's protocol: the first message is a list"),
        ("who are you?", r"^ws://\S+ says: who are you\?$"),
    ],
)
def test_a_server_that_speaks_something_else(first: bytes | str, message: str) -> None:
    def handle(connection: ServerConnection) -> None:
        connection.send(first)

    with answering(handle) as url, pytest.raises(RemoteError, match=message):
        evaluated(url)


def test_a_reply_that_is_none() -> None:
    for reply, message in (({}, "has no actions, only"), ([1], "replied with no dict")):
        with openpi_server(reply=reply) as (url, _), pytest.raises(RemoteError, match=message):  # type: ignore[arg-type]
            evaluated(url, budgets=())


def test_a_server_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_policy, "RECONNECT_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with pytest.raises(RemoteError, match=rf"ws://127\.0\.0\.1:{port} cannot be reached .*serve"):
        evaluated(f"ws://127.0.0.1:{port}")
    with pytest.raises(ValueError, match="'http://x' is no address of a policy server"):
        RemotePolicy("http://x")


def test_a_server_that_comes_back_with_another_policy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = RemotePolicy(url)
    monkeypatch.setattr(remote, "metadata", {**remote.metadata, "fingerprint": "of before"})
    monkeypatch.setattr(remote_policy.Client, "ask", lambda *_: {"stale": True})
    with pytest.raises(RemoteError, match="serves another policy than when the evaluation began"):
        remote.predict_action_chunk(batch(), **ASKED)


def test_tokens_that_are_no_chunk_end_the_episode_as_they_do_here(
    here: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mute(*_: Any, **__: Any) -> None:
        raise DecodeError("1 of 1 sequences did not decode in 10 attempts")

    with serving(here, ServeConfig(port=0, max_batch=1)) as url:
        monkeypatch.setattr(type(here), "predict_action_chunk", mute)
        there, same = evaluated(url), evaluated(here)
    assert bits(there) == bits(same)
    assert there.episodes[0].error == "1 of 1 sequences did not decode in 10 attempts"


@pytest.mark.parametrize("change", ["x", "=observation.state", "x=", f"x={IMAGES}side"])
def test_wrong_keys(url: str, change: str) -> None:
    with pytest.raises(ValueError, match=r"--map .*expected KEY=|unknown key"):
        RemotePolicy(url, keys=[change])
