"""The protocol as clients see it, on a free port of this process."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from oatkit_client import Client, ServerError
from oatkit_client.wire import pack, unpack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from oatkit.policies import LightPolicy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.policies import tiny
from tests.serve.slow import OBSERVATION, STATE, SlowPolicy, make_policy


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> LightPolicy:
    policy = make_policy(Path(tmp_path_factory.mktemp("policy")))
    policy.extras["data"] = {"state_names": list("abcde")}  # as training leaves them
    return policy


@pytest.fixture(scope="module")
def url(light: LightPolicy) -> Iterator[str]:
    with serving(light, ServeConfig(port=0, max_batch=2), fingerprint="f00") as url:
        yield url


def served(policy: Any, **settings: Any) -> Any:
    return serving(policy, ServeConfig(**{"port": 0, "max_batch": 2, **settings}))


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """However busy the machine is."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_metadata_comes_first(url: str, light: LightPolicy) -> None:
    with connect(url, compression=None) as socket:
        metadata = unpack(socket.recv())
    assert (metadata["horizon"], metadata["action_dim"]) == (8, 3)
    assert metadata["keys"] == {"observation.state": "observation/state", "task": "prompt"}
    assert metadata["budgets"] == [1, 2, 4, 8]
    assert set(metadata["latency_ms"]) == {"1", "2", "4", "8"}
    assert metadata["normalization"] == {
        "action": light.tokenizer.normalizer.to_json(),
        "state": light.spec.state and light.spec.state.to_json(),
    }
    assert metadata["tokenizer_fingerprint"] == light.tokenizer.digest
    assert metadata["head"] == "tokens"
    assert metadata["fingerprint"] == "f00"
    assert metadata["tasks"] == list(light.spec.tasks)
    assert metadata["action_names"] == [f"action_{i}" for i in range(3)]
    assert metadata["state_names"] == list("abcde")
    assert (metadata["state_dim"], metadata["history"]) == (tiny.STATE_DIM, 1)
    assert (metadata["cameras"], metadata["fps"]) == ({}, None)


def test_a_reply_is_openpis_and_more(url: str) -> None:
    with connect(url, compression=None) as socket:
        socket.recv()
        socket.send(pack(OBSERVATION))
        reply = unpack(socket.recv())
        socket.send(pack({**OBSERVATION, "budget": 2}))
        second = unpack(socket.recv())
    assert reply["actions"].shape == (8, 3)
    assert reply["actions"].dtype == np.float32
    assert len(reply["tokens"]) == len(reply["entropy"]) == reply["budget_used"] == 8
    assert set(reply["server_timing"]) == {"infer_ms", "queue_ms"}
    assert (second["budget_used"], second["calls"]) == (2, 2)
    assert second["server_timing"]["prev_total_ms"] >= reply["server_timing"]["infer_ms"]


def test_auto_stops_where_the_policy_would(
    url: str, light: LightPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(url) as client:
        with pytest.raises(ServerError, match="budget 'auto' has no thresholds"):
            client.infer(OBSERVATION, budget="auto")
        for entropy_bits, budget in ((1000.0, 1), (-1.0, 8)):
            monkeypatch.setattr(light, "auto", AutoThresholds(-1.0, entropy_bits))
            for deadline_ms in (None, 60_000):
                reply = client.infer(OBSERVATION, budget="auto", deadline_ms=deadline_ms)
                assert reply["budget_used"] == len(reply["tokens"]) == budget


def test_only_the_actions_are_an_array(url: str) -> None:
    """openpi's ActionChunkBroker indexes every array by the step in the chunk."""
    with Client(url) as client:
        reply = client.infer(OBSERVATION)
    assert [key for key, value in reply.items() if isinstance(value, np.ndarray)] == ["actions"]


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


def test_health_and_metrics(light: LightPolicy) -> None:
    with served(light) as url, Client(url) as client:
        assert get(url, "/healthz") == (200, "OK\n")
        client.infer(OBSERVATION, budget=2)
        client.infer(OBSERVATION, budget=4, deadline_ms=10_000)
        with pytest.raises(ServerError):
            client.infer({"x": 1})
        status, text = get(url, "/metrics")
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert values['oatkit_requests_total{outcome="ok"}'] == "2"
    assert values['oatkit_requests_total{outcome="error"}'] == "1"
    assert values['oatkit_errors_total{kind="request"}'] == "1"
    assert values['oatkit_deadlines_total{outcome="met"}'] == "1"
    assert [values[f'oatkit_budget_used_bucket{{le="{k}"}}'] for k in (1, 2, 4)] == ["0", "1", "2"]
    assert values['oatkit_request_seconds_bucket{le="+Inf"}'] == "2"
    assert values["oatkit_queue_depth"] == "0"
    assert float(values["oatkit_request_seconds_sum"]) > 0


def test_the_key_is_asked_for_before_anything_else(light: LightPolicy) -> None:
    with served(light, api_key="s3cret") as url:
        for headers in ({}, {"Authorization": "Api-Key wrong"}, {"Authorization": "s3cret"}):
            with pytest.raises(InvalidStatus) as refused:
                connect(url, additional_headers=headers).__enter__()
            assert refused.value.response.status_code == 401
        assert get(url, "/healthz")[0] == 200
        assert get(url, "/metrics")[0] == 401
        two = [("Authorization", "Api-Key wrong"), ("Authorization", "Api-Key s3cret")]
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=two).__enter__()
        assert refused.value.response.status_code == 401
        assert get(url, "/metrics", Authorization="Api-Key s3cret")[0] == 200
        with Client(url, api_key="s3cret") as client:
            assert client.infer(OBSERVATION)["actions"].shape == (8, 3)


def test_web_pages_are_refused(url: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(url, origin="https://example.org").__enter__()  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403


def test_many_clients_are_batched(light: LightPolicy) -> None:
    policy = SlowPolicy(light)
    with served(policy, max_batch=8) as url:
        policy.batches.clear()
        policy.gate.clear()

        def work(number: int) -> list[Any]:
            with Client(url) as client:
                state = STATE + np.float32(number)
                message = {**OBSERVATION, "observation/state": state}
                return [client.infer(message)["actions"] for _ in range(4)]

        with ThreadPoolExecutor(12) as pool:
            running = [pool.submit(work, number) for number in range(12)]
            wait_until(lambda: sum(policy.batches) + depth(url) == 12)
            policy.gate.set()
            chunks = [one.result() for one in running]
    assert all(chunk.shape == (8, 3) for some in chunks for chunk in some)
    assert sum(policy.batches) == 48
    first, second, *_ = policy.batches
    assert second == min(8, 12 - first), "all that gathered meanwhile, up to the largest batch"


def depth(url: str) -> int:
    found = re.search(r"^oatkit_queue_depth (\d+)", get(url, "/metrics")[1], re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_busy_is_said_and_may_be_repeated(light: LightPolicy) -> None:
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


def test_internal_errors_are_not_told(light: LightPolicy, caplog: pytest.LogCaptureFixture) -> None:
    policy = SlowPolicy(light)
    with served(policy) as url, Client(url) as client:
        policy.poison = 0.0
        with pytest.raises(ServerError, match=r"^internal error \w{8}: the server's log") as told:
            client.infer(OBSERVATION)
        assert "secret" not in str(told.value)
        assert "secret detail" in caplog.text
        policy.poison = None
        assert client.infer(OBSERVATION)["budget_used"] == 8


def test_a_prediction_that_hangs_is_given_up(light: LightPolicy) -> None:
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


def test_messages_of_any_size_are_bounded(light: LightPolicy) -> None:
    with served(light, max_message_bytes=1000) as url:
        with connect(url, compression=None) as socket:
            socket.recv()
            socket.send(pack({**OBSERVATION, "x": np.zeros(1000)}))
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        with Client(url) as client:
            assert client.infer(OBSERVATION)["budget_used"] == 8


def test_superfluous_clients(light: LightPolicy) -> None:
    with served(light, max_connections=1) as url, connect(url, compression=None) as first:
        first.recv()
        with pytest.raises(InvalidStatus) as refused:
            connect(url).__enter__()
        assert refused.value.response.status_code == 503


def test_silent_clients(light: LightPolicy) -> None:
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


def test_a_client_that_disappears(light: LightPolicy) -> None:
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


def test_deadlines_are_kept_under_load(light: LightPolicy) -> None:
    """A stage takes 10 ms: alone all 4 fit in 150 ms, and with others in the queue fewer do."""
    policy = SlowPolicy(light, stage_s=0.01)
    with served(policy, max_batch=2) as url:
        with Client(url) as client:
            easy = client.infer(OBSERVATION, deadline_ms=5000)
            hard = client.infer(OBSERVATION, deadline_ms=1)
        assert (easy["budget_used"], easy["deadline_met"]) == (8, True)
        assert (hard["budget_used"], hard["deadline_met"]) == (1, False)

        def work(request: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
            found = []
            with Client(url) as client:
                for _ in range(5):
                    began = time.perf_counter()
                    reply = client.infer(OBSERVATION, **request)
                    found.append((1000 * (time.perf_counter() - began), reply))
            return found

        with ThreadPoolExecutor(8) as pool:
            first = [ms for some in pool.map(work, [{"budget": 1}] * 8) for ms, _ in some]
            deadline_ms = max(400, 3 * max(first))  # the first prefix fits, on a busy machine too
            asked = [{"deadline_ms": deadline_ms}] * 8
            replies = [reply for some in pool.map(work, asked) for _, reply in some]
    met = sum(reply["deadline_met"] for reply in replies)
    assert met >= 0.9 * len(replies)


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
    with served(policy, sampling=Sampling(0)) as url, Client(url) as client:
        first = client.infer(frame)
        assert "reads 2 frames and got one, which was repeated" in first["warning"]
        assert "warning" not in client.infer(frame)
        np.testing.assert_allclose(client.infer(frames)["actions"], first["actions"], atol=1e-5)


def test_an_episode_repeats_with_a_seed(light: LightPolicy) -> None:
    with (
        served(light, sampling=Sampling(seed=3)) as url,
        Client(url) as client,
        Client(url) as other,
    ):
        first = [client.infer(OBSERVATION)["tokens"] for _ in range(3)]
        client.reset()
        again = [client.infer(OBSERVATION)["tokens"] for _ in range(3)]
        assert first == again == [other.infer(OBSERVATION)["tokens"] for _ in range(3)]
        assert first[0] != first[1]


def test_a_budget_that_is_impossible_is_told_at_the_start(light: LightPolicy) -> None:
    with pytest.raises(ValueError, match="budget 9 is outside"), served(light, budget=9):
        pass


def test_a_port_that_is_taken(light: LightPolicy, url: str) -> None:
    port = urlsplit(url).port
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="address already in use"), served(light, port=port):
        pass
    assert set(threading.enumerate()) <= before, "nothing is left that waits for requests"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_batch": 0}, "max_batch is 0, expected at least 1"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0, expected more than 0"),
        ({"port": 70000}, "port is 70000, expected 0 to 65535"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ServeConfig(**settings)
