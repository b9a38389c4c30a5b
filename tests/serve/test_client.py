"""The robot's side: lost connections, time-outs, and one action at a time."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oatkit_client import (
    ChunkQueue,
    Client,
    ConnectionFailed,
    RealTimeChunks,
    Refused,
    RequestTimeout,
    ServerError,
    WireError,
)
from oatkit_client.wire import pack
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from oatkit.policies import LightPolicy
from oatkit.serve import ServeConfig, serving
from tests.serve.slow import OBSERVATION, SlowPolicy, make_policy


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> SlowPolicy:
    light: LightPolicy = make_policy(Path(tmp_path_factory.mktemp("policy")))
    return SlowPolicy(light)


@pytest.fixture(scope="module")
def url(policy: SlowPolicy) -> Iterator[str]:
    with serving(policy, ServeConfig(port=0, max_batch=1, api_key="key")) as url:
        yield url


def test_the_server_may_come_later_and_come_back(policy: SlowPolicy, free_port: int) -> None:
    config = ServeConfig(port=free_port, max_batch=1)
    with Client(f"127.0.0.1:{free_port}", timeout_s=60) as client:
        found: list[dict[str, Any]] = []
        early = threading.Thread(target=lambda: found.append(client.infer(OBSERVATION)))
        early.start()
        with serving(policy, config):
            early.join()
        with serving(policy, config):
            found.append(client.infer(OBSERVATION))
    assert [reply["actions"].shape for reply in found] == [(8, 3)] * 2


def test_a_server_that_is_not_there(free_port: int) -> None:
    with Client(f"ws://127.0.0.1:{free_port}", timeout_s=0.3) as client:
        began = time.monotonic()
        with pytest.raises(ConnectionFailed, match=r"cannot be reached .*: is `oatkit serve`"):
            client.infer(OBSERVATION)
        assert time.monotonic() - began < 5


def test_a_wrong_key_is_not_tried_again(url: str) -> None:
    for key in (None, "wrong"):
        with pytest.raises(Refused, match=r"\(401\): the API key is missing or wrong"):
            Client(url, key).infer(OBSERVATION)


def test_a_key_is_never_shown_and_may_end_with_a_line(url: str) -> None:
    with Client(url, "key\n") as client:
        assert client.infer(OBSERVATION)["budget_used"] == 8
    for key in ("", "s3cret\nX-Other: 1", "s3crét"):
        with pytest.raises(ValueError, match=r"api_key is no key: expected one line") as said:
            Client(url, key)
        assert "s3cr" not in str(said.value)


def test_a_server_that_is_full_says_so(policy: SlowPolicy) -> None:
    with (
        serving(policy, ServeConfig(port=0, max_batch=1, max_connections=1)) as url,
        Client(url) as first,
        Client(url, timeout_s=1) as second,
    ):
        assert first.metadata
        with pytest.raises(ConnectionFailed, match="busy: 1 clients are connected already"):
            second.infer(OBSERVATION)


@contextmanager
def deaf_server(*frames: Frame) -> Iterator[str]:
    """Shakes hands where it has something to say, says it, and never reads again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                if frames and shake_hands(connection):
                    for frame in frames:
                        connection.sendall(frame.serialize(mask=False))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


def shake_hands(connection: socket.socket) -> bool:
    """Whether there was a hand."""
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        more = connection.recv(4096)
        if not more:
            return False
        request += more
    key = re.search(rb"Sec-WebSocket-Key: (\S+)", request)
    assert key is not None
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Accept: {accept_key(key[1].decode())}", "", ""]
    connection.sendall("\r\n".join(lines).encode())
    return True


METADATA = Frame(Opcode.BINARY, pack({"horizon": 8}))


def test_a_server_that_accepts_and_is_silent() -> None:
    with (
        deaf_server() as url,
        Client(url, timeout_s=0.3, connect_timeout_s=600) as client,
        pytest.raises(ConnectionFailed, match="cannot be reached"),
    ):
        client.infer(OBSERVATION)


@pytest.mark.parametrize("num_bytes", [10, 20 << 20])
def test_a_message_that_never_leaves(num_bytes: int) -> None:
    """What the sockets do not hold is not sent for ever."""
    message = {**OBSERVATION, "observation/image": np.zeros(num_bytes, np.uint8)}
    with ThreadPoolExecutor(1) as pool, deaf_server(METADATA) as url, Client(url) as client:
        assert client.metadata == {"horizon": 8}
        client._timeout_s = 0.5
        asked = pool.submit(client.infer, message)
        assert isinstance(asked.exception(timeout=60), RequestTimeout)


def test_a_greeting_that_is_none_is_not_taken_for_one() -> None:
    for frame, error in (
        (Frame(Opcode.TEXT, b"no policy here"), ServerError),
        (Frame(Opcode.BINARY, pack([1])), WireError),
    ):
        with deaf_server(frame) as url, Client(url) as client:
            ask: list[Callable[[], Any]] = [lambda: client.metadata, lambda: client.infer({})]
            for one in ask:
                with pytest.raises(error):
                    one()


def test_an_address_that_is_none() -> None:
    with pytest.raises(Refused, match="expected ws://host:port"):
        Client("http://127.0.0.1").infer(OBSERVATION)


def test_a_late_reply_is_not_taken_for_the_next(url: str, policy: SlowPolicy) -> None:
    with Client(url, "key") as client:
        assert client.metadata["horizon"] == 8
        client._timeout_s = 0.4
        policy.gate.clear()
        with pytest.raises(RequestTimeout, match=r"did not answer within 0\.4 s"):
            client.infer(OBSERVATION, budget=1)
        policy.gate.set()
        client._timeout_s = 30
        assert client.infer(OBSERVATION, budget=4)["budget_used"] == 4


def test_errors_are_the_servers_words_and_the_client_goes_on(url: str) -> None:
    with Client(url, "key") as client:
        with pytest.raises(ServerError, match="unknown task 'dance'"):
            client.infer({**OBSERVATION, "prompt": "dance"})
        with pytest.raises(WireError, match="cannot be sent: a object is neither text"):
            client.infer({"observation/state": object()})
        assert client.infer(OBSERVATION)["budget_used"] == 8


class Counting:
    """A policy whose chunk holds, at step t of an observation x, the number x + t."""

    def __init__(self, horizon: int = 8) -> None:
        self.horizon = horizon
        self.seen: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.num_resets = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def infer(self, obs: Any, **request: Any) -> dict[str, Any]:
        self.seen.append(obs["x"])
        self.requests.append(request)
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return {"actions": (obs["x"] + np.arange(self.horizon))[:, None]}

    def reset(self) -> None:
        self.num_resets += 1


def test_chunk_queue_executes_the_first_part() -> None:
    policy = Counting()
    queue = ChunkQueue(policy, budget="auto")
    actions = [int(queue.step({"x": 100 * step})[0]) for step in range(6)]
    assert actions == [0, 1, 2, 3, 400, 401]
    assert policy.seen == [0, 400]
    assert policy.requests[0] == {"budget": "auto"}
    queue.reset()
    assert queue.step(lambda: {"x": 7})[0] == 7
    assert policy.num_resets == 1
    assert [int(ChunkQueue(policy, execute=99).step({"x": 1})[0])] == [1]
    with pytest.raises(ValueError, match="execute is 0, expected 1 or more"):
        ChunkQueue(policy, execute=0)


def test_chunk_queue_does_not_look_more_often_than_it_asks() -> None:
    looks: list[int] = []

    def look() -> dict[str, int]:
        looks.append(1)
        return {"x": 0}

    queue = ChunkQueue(Counting(), execute=3)
    for _ in range(7):
        queue.step(look)
    assert len(looks) == 3


def wait_for(policy: Counting, chunks: RealTimeChunks, num_requests: int) -> None:
    """Until the request is made and, where the gate is open, answered."""
    while len(policy.seen) < num_requests:
        time.sleep(0.001)
    pending = chunks._pending
    if policy.gate.is_set() and pending is not None:
        pending.exception()


def test_real_time_goes_on_while_it_asks() -> None:
    """Step s observes x = s, so that an action of a chunk in time is the number of its step."""
    policy = Counting()
    with RealTimeChunks(policy, execute=3, rate_hz=50) as chunks:
        actions = [int(chunks.step({"x": step})[0]) for step in range(3)]
        policy.gate.clear()
        actions.append(int(chunks.step({"x": 3})[0]))
        wait_for(policy, chunks, 2)
        actions += [int(chunks.step({"x": step})[0]) for step in (4, 5)]
        policy.gate.set()
        wait_for(policy, chunks, 2)
        assert chunks.num_waits == 0
        before = len(policy.seen)
        actions += [int(chunks.step({"x": step})[0]) for step in range(6, 8)]
    assert actions == list(range(8)), "what was past when the second chunk came was left out"
    assert policy.seen[:2] == [0, 3]
    assert before == 2
    assert policy.requests[0] == {}, "nothing runs out while there is nothing"
    assert policy.requests[1] == {"deadline_ms": pytest.approx(100)}, "5 steps were left at 50 Hz"


def test_real_time_waits_where_nothing_is_left() -> None:
    policy = Counting(horizon=2)
    with RealTimeChunks(policy, execute=1) as chunks:
        assert chunks.step({"x": 0})[0] == 0
        policy.gate.clear()
        assert chunks.step({"x": 1})[0] == 1

        def open_gate() -> None:
            while not chunks.num_waits:
                time.sleep(0.001)
            policy.gate.set()

        opener = threading.Thread(target=open_gate)
        opener.start()
        assert chunks.step({"x": 2})[0] == 2
        opener.join()
        assert chunks.num_waits == 1


def test_real_time_raises_only_where_nothing_is_left() -> None:
    policy = Counting(horizon=4)
    with RealTimeChunks(policy, execute=1) as chunks:
        assert chunks.step({"x": 0})[0] == 0
        policy.failure = ServerError("no")
        for step in (1, 2, 3):
            assert chunks.step({"x": step})[0] == step
            wait_for(policy, chunks, step + 1)
        with pytest.raises(ServerError, match="no"):
            chunks.step({"x": 4})
        assert chunks.num_failures >= 3
        policy.failure = None
        chunks.reset()
        assert chunks.step({"x": 9})[0] == 9


def test_real_time_forgets_an_episode() -> None:
    policy = Counting()
    with RealTimeChunks(policy, execute=1) as chunks:
        chunks.step({"x": 0})
        policy.gate.clear()
        chunks.step({"x": 1})
        wait_for(policy, chunks, 2)
        chunks.reset()
        assert policy.num_resets == 0, "the request under way is of the episode before"
        policy.gate.set()
        assert chunks.step({"x": 500})[0] == 500
        assert policy.num_resets == 1
        assert chunks.num_waits == 0


def test_nothing_is_asked_after_closing() -> None:
    policy = Counting()
    with RealTimeChunks(policy, execute=1) as chunks:
        chunks.step({"x": 0})
        policy.gate.clear()
        chunks.step({"x": 1})
        threading.Timer(0.05, policy.gate.set).start()
    num_requests = len(policy.seen)
    time.sleep(0.05)
    assert len(policy.seen) == num_requests
    assert not any(thread.name.startswith("oatkit-client") for thread in threading.enumerate())


def test_real_time_with_a_server(url: str) -> None:
    with Client(url, "key") as client, RealTimeChunks(client, rate_hz=1000, budget=4) as chunks:
        actions = [chunks.step(OBSERVATION) for _ in range(20)]
    assert np.shape(actions) == (20, 3)
    assert chunks.reply["budget_used"] <= 4
