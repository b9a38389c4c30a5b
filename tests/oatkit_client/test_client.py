"""The robot's connection: lost and found, in time or not, with tokens or actions."""

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
    Client,
    ConnectionFailed,
    LocalDecoder,
    Refused,
    RequestTimeout,
    Sampling,
    ServerError,
    WireError,
)
from oatkit_client.wire import pack
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

import oatkit
from oatkit.cli import main
from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling as PolicySampling
from tests.policies import tiny
from tests.serve.slow import OBSERVATION, SlowPolicy, make_policy


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> SlowPolicy:
    light: Policy = make_policy(Path(tmp_path_factory.mktemp("policy")))
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


def test_a_server_that_knows_no_draws() -> None:
    reply = Frame(Opcode.BINARY, pack({"actions": np.zeros((8, 3), np.float32)}))
    with deaf_server(METADATA, reply, reply, reply) as url, Client(url) as client:
        for draws in (3, "3"):
            with pytest.raises(Refused, match=f"gives one chunk and not {draws!r}: ask without"):
                client.infer(OBSERVATION, draws=draws)  # type: ignore[arg-type]
        assert client.infer(OBSERVATION)["actions"].shape == (8, 3)


def test_the_scale_of_actions_is_known_while_a_request_is_under_way(policy: SlowPolicy) -> None:
    with (
        serving(policy, ServeConfig(port=0, max_batch=1)) as url,
        Client(url) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        told = client.metadata["normalization"]["action"]["scale"]
        policy.gate.clear()
        policy.has_begun.clear()
        asked = pool.submit(client.infer, OBSERVATION)
        policy.has_begun.wait()
        scale = pool.submit(lambda: client.action_scale)
        try:
            np.testing.assert_array_equal(scale.result(timeout=5), told)
            assert not asked.done()
        finally:
            policy.gate.set()
        assert asked.result()["actions"].shape == (8, 3)


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


def test_only_tokens_travel(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    policy = oatkit.load_policy(folder)
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    with (
        serving(policy, ServeConfig(port=0, max_batch=2, sampling=PolicySampling(0))) as url,
        Client(url) as plain,
        Client(url, decoder=LocalDecoder(files)) as thin,
    ):
        for budget in (2, 8):
            whole = plain.infer(observation, budget=budget)
            decoded = thin.infer(observation, budget=budget)
            assert decoded["tokens"] == whole["tokens"]
            np.testing.assert_allclose(decoded["actions"], whole["actions"], atol=1e-3)
        bare = plain.infer({**observation, "tokens_only": True})
        assert "actions" not in bare
        assert len(bare["tokens"]) == 8


def test_a_decoder_of_another_tokenizer_is_refused(
    exported: tuple[Path, Path], dataset: Dataset, tmp_path: Path
) -> None:
    other = tiny.make_tokenizer("oat-pow2", dataset, num_layers=2)
    other.save_pretrained(tmp_path / "other")
    assert main(["export", str(tmp_path / "other"), "--out", str(tmp_path / "onnx")]) == 0
    policy = oatkit.load_policy(exported[0])
    with (
        serving(policy, ServeConfig(port=0, max_batch=1)) as url,
        Client(url, decoder=LocalDecoder(tmp_path / "onnx")) as client,
        pytest.raises(Refused, match="the decoder is not that of the policy"),
    ):
        client.infer({"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]})


def test_sampling_is_asked_for_by_request(policy: SlowPolicy) -> None:
    """What a request leaves out is the server's; a seed begins again with every episode."""
    config = ServeConfig(port=0, max_batch=1, sampling=PolicySampling(temperature=0))
    with serving(policy, config) as url, Client(url) as client:
        likeliest = client.infer(OBSERVATION)["tokens"]

        def episode(sampling: Any) -> list[list[int]]:
            client.reset()
            return [client.infer(OBSERVATION, sampling=sampling)["tokens"] for _ in range(4)]

        seeded = Sampling(top_k=None, seed=3)
        sampled = episode(seeded)
        assert sampled != [likeliest] * 4
        assert len({tuple(tokens) for tokens in sampled}) > 1, "the seed is not for every request"
        assert sampled == episode(seeded), "but for every episode"
        assert sampled == episode({"temperature": 1.0, "top_k": None, "seed": 3})
        assert sampled != episode(Sampling(top_k=None, seed=4))
        assert episode({"seed": 3}) == [likeliest] * 4, "the temperature is the server's"
        assert episode(Sampling(temperature=5.0, top_k=1)) == [likeliest] * 4
        assert episode(Sampling(top_p=1e-6)) == [likeliest] * 4
        with pytest.raises(ServerError, match="unknown sampling rule 'topk'; known, closest first"):
            client.infer(OBSERVATION, sampling={"topk": 3})
