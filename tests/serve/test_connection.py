"""The conversation with a client: replies, errors, warnings, seeds and time-outs."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from oatkit_client import Client, ServerError
from oatkit_client.wire import pack, unpack
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from oatkit.policies import Policy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.types import Sampling as ServerSampling
from tests.policies import tiny
from tests.serve.slow import OBSERVATION, STATE, SlowPolicy, make_policy
from tests.serve.talking import get, served, wait_until


def test_auto_stops_where_the_policy_would(
    url: str, light: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(url) as client:
        with pytest.raises(ServerError, match="budget 'auto' has no thresholds"):
            client.infer(OBSERVATION, budget="auto")
        for thresholds, budget in ((AutoThresholds((1,), (1000.0,)), 1), (AutoThresholds(), 8)):
            monkeypatch.setattr(light, "auto", thresholds)
            for deadline_ms in (None, 60_000):
                reply = client.infer(OBSERVATION, budget="auto", deadline_ms=deadline_ms)
                assert reply["budget_used"] == len(reply["tokens"]) == budget


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"\xc1", "no msgpack"),
        ("text", "expected a binary one"),
        (pack({**OBSERVATION, "observation/state": STATE[:2]}), r"is \(2,\), expected \(5,\)"),
        (pack({"other": 1}), "expected observation/state, prompt"),
    ],
)
def test_an_error_is_text_then_1011(url: str, message: Any, problem: str) -> None:
    with connect(url, compression=None) as socket:
        socket.recv()
        socket.send(message)
        answer = socket.recv()
        assert isinstance(answer, str)
        assert "Traceback" not in answer
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    with Client(url) as client, pytest.raises(ServerError, match=problem):
        client._ask(message, time.monotonic() + 10)  # type: ignore[arg-type]
    with Client(url) as client:
        assert client.infer(OBSERVATION)["budget_used"] == 8, "others are served"


def test_a_state_far_off_is_said_once_and_counted(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    degrees = {**OBSERVATION, "observation/state": STATE + np.float32([0, 1e3, 0, 0, 0])}
    with Client(url) as client:
        assert "warning" not in client.infer(OBSERVATION)
        with caplog.at_level("WARNING"):
            first = client.infer(degrees)["warning"]
        assert "b is 1000, in training it was -" in first
        assert any("out_of_range" in record.getMessage() for record in caplog.records)
        assert "warning" not in client.infer(degrees)
    with Client(url) as client:
        assert client.infer(degrees)["warning"] == first, "once a connection"
    assert 'oatkit_out_of_range_total{dimension="b"} 3' in get(url, "/metrics")[1]


def test_a_state_far_off_is_refused_where_that_was_asked_for(light: Policy) -> None:
    with served(light, refuse_out_of_range=True) as url, Client(url) as client:
        with pytest.raises(
            ServerError, match="far outside of the training data: c is -1e\\+06, in"
        ):
            client.infer(
                {**OBSERVATION, "observation/state": STATE - np.float32([0, 0, 1e6, 0, 0])}
            )
        assert client.infer(OBSERVATION)["budget_used"] == 8
        assert 'oatkit_out_of_range_total{dimension="c"} 1' in get(url, "/metrics")[1]


def test_busy_is_said_and_may_be_repeated(light: Policy) -> None:
    policy = SlowPolicy(light)
    with served(policy, max_queue=1) as url, ThreadPoolExecutor(2) as pool:
        clients = [Client(url) for _ in range(3)]
        assert [client.metadata["horizon"] for client in clients] == [8] * 3
        policy.gate.clear()
        policy.has_begun.clear()
        running = pool.submit(clients[0].infer, OBSERVATION)
        policy.has_begun.wait()
        waiting = pool.submit(clients[1].infer, OBSERVATION)
        wait_until(lambda: "oatkit_queue_depth 1" in get(url, "/metrics")[1])
        with connect(url, compression=None) as socket:
            socket.recv()
            socket.send(pack(OBSERVATION))
            answer = socket.recv()
            assert answer == "busy: 1 requests wait already; ask again later"
            threading.Timer(0.2, policy.gate.set).start()
            assert clients[2].infer(OBSERVATION)["budget_used"] == 8, "a client asks again"
            socket.send(pack(OBSERVATION))
            assert unpack(socket.recv())["budget_used"] == 8, "the connection lives on"
        assert running.result()["budget_used"] == waiting.result()["budget_used"] == 8
        for client in clients:
            client.close()


def test_internal_errors_are_not_told(light: Policy, caplog: pytest.LogCaptureFixture) -> None:
    policy = SlowPolicy(light)
    with served(policy) as url, Client(url) as client:
        policy.poison = 0.0
        with pytest.raises(ServerError, match=r"^internal error \w{8}: the server's log") as told:
            client.infer(OBSERVATION)
        assert "secret" not in str(told.value)
        assert "secret detail" in caplog.text
        policy.poison = None
        assert client.infer(OBSERVATION)["budget_used"] == 8


def test_a_prediction_that_hangs_is_given_up(light: Policy) -> None:
    policy = SlowPolicy(light)
    with served(policy, timeout_s=0.5) as url, Client(url) as client:
        assert client.metadata
        policy.gate.clear()
        with pytest.raises(ServerError, match=r"no prediction within 0\.5 s"):
            client.infer(OBSERVATION)
        wait_until(lambda: get(url, "/healthz") == (503, "inference hangs\n"))
        policy.gate.set()
        for _ in range(20):  # a busy machine may need more than the half second
            with suppress(ServerError):
                assert client.infer(OBSERVATION)["budget_used"] == 8
                break
        else:
            pytest.fail("nothing is predicted any more")


def test_silent_clients(light: Policy) -> None:
    with served(light, idle_timeout_s=0.2) as url:
        with connect(url, compression=None) as first:
            first.recv()
            with pytest.raises(ConnectionClosed) as closed:
                first.recv(timeout=60)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.reason == "silent for 0.2 s"
        address = (urlsplit(url).hostname, urlsplit(url).port)
        with socket.create_connection(address), Client(url) as client:  # one never says a word
            assert client.infer(OBSERVATION)["budget_used"] == 8


GONE = 'oatkit_requests_total{outcome="gone"} 1'


def test_a_client_that_disappears(light: Policy) -> None:
    policy = SlowPolicy(light)
    with served(policy, max_batch=1) as url, Client(url) as client:
        assert client.metadata
        policy.batches.clear()
        policy.gate.clear()
        policy.has_begun.clear()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.infer, OBSERVATION)
            policy.has_begun.wait()
            gone = connect(url, compression=None).__enter__()
            gone.recv()
            gone.send(pack(OBSERVATION))
            gone.close()
            wait_until(lambda: GONE in get(url, "/metrics")[1])
            policy.gate.set()
            assert waiting.result()["budget_used"] == 8
        assert client.infer(OBSERVATION)["budget_used"] == 8
        assert policy.batches == [1, 1], "nothing is computed for who is gone"


def test_a_policy_that_cannot_stop_ignores_deadlines_and_says_so(tmp_path: Path) -> None:
    with served(make_policy(tmp_path, "quest")) as url, Client(url) as client:
        reply = client.infer(OBSERVATION, deadline_ms=1)
        assert reply["warning"] == "this policy cannot stop early: deadline_ms is ignored"
        assert "warning" not in client.infer(OBSERVATION, deadline_ms=1)
        with pytest.raises(ServerError, match="quest decodes only all of its tokens"):
            client.infer(OBSERVATION, budget=1)


def test_history_is_repeated_and_warned_of_once(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, history=2, cameras=("front",))
    frame = {
        **OBSERVATION,
        "observation/front_image": np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8),
    }
    frames = {
        "observation/state": np.stack([STATE, STATE]),
        "observation/front_image": np.stack([frame["observation/front_image"]] * 2),
        "prompt": OBSERVATION["prompt"],
    }
    with served(policy, sampling=ServerSampling(0)) as url, Client(url) as client:
        first = client.infer(frame)
        assert "reads 2 frames and got one, which was repeated" in first["warning"]
        assert "warning" not in client.infer(frame)
        np.testing.assert_allclose(client.infer(frames)["actions"], first["actions"], atol=1e-5)


def test_an_episode_repeats_with_a_seed(light: Policy) -> None:
    with (
        served(light, sampling=ServerSampling(seed=3)) as url,
        Client(url) as client,
        Client(url) as other,
    ):
        first = [client.infer(OBSERVATION)["tokens"] for _ in range(3)]
        client.reset()
        again = [client.infer(OBSERVATION)["tokens"] for _ in range(3)]
        assert first == again == [other.infer(OBSERVATION)["tokens"] for _ in range(3)]
        assert first[0] != first[1]
