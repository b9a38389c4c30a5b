"""Whatever is sent, the answer is an error, others are served, and memory does not grow."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oatkit_client import Client
from oatkit_client.protocol import REQUEST_KEYS
from oatkit_client.wire import pack
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_here

from oatkit.serve import ServeConfig, serving
from tests.policies import tiny
from tests.serve.process import ServerProcess, started
from tests.serve.slow import OBSERVATION, STATE, make_policy

NUM_FRAMES = 10_000
AT_ONCE = 20
SLACK_MB = 16
"""By which memory may move without having grown."""
GOOD = pack(OBSERVATION)

names = st.sampled_from(["observation/state", "prompt", "task", *REQUEST_KEYS])
dtypes = st.sampled_from(["O", "<f4", "<f8", "|V8", "c8", "<U5", "M8[s]", "f4,f4", "a9", "?", ""])
sizes = st.lists(st.integers(-2, 2**63), max_size=40)
arrays = st.fixed_dictionaries(
    {b"__ndarray__": st.booleans(), b"data": st.binary(max_size=40)},
    optional={b"dtype": dtypes | st.text(max_size=8), b"shape": sizes | st.none()},
)
scalars = st.fixed_dictionaries(
    {b"__npgeneric__": st.just(True)},
    optional={b"dtype": dtypes, b"data": st.integers(-9, 2**64 - 1)},
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | arrays
    | scalars
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=9))
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
messages = st.dictionaries(names | st.text(max_size=9) | st.integers(0, 9), trees, max_size=4)


@st.composite
def frames(draw: st.DrawFn) -> bytes | str:
    """No request: each lacks the state, or has one that is none."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(st.text(max_size=50))
    if kind == 1:
        return draw(st.binary(max_size=300))
    if kind == 2:
        return GOOD[: draw(st.integers(0, len(GOOD) - 1))]
    message = draw(messages)
    if kind == 3:
        message = {**OBSERVATION, **message, "observation/state": draw(trees)}
    else:
        message.pop("observation/state", None)
    return bytes(msgpack.packb(message, default=_plain))


def _plain(value: Any) -> Any:
    return msgpack.unpackb(pack(value), strict_map_key=False)


def broken(rng: np.random.Generator) -> bytes | str:
    """The same by plain random numbers, with what is large, deep or not finite."""
    lie = {b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [1 << 31, 1 << 31]}
    many = {b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [1 << 60] * 5000}
    states: list[Any] = [
        STATE * np.nan,
        STATE + np.inf,
        STATE.astype("<U8"),
        np.full(tiny.STATE_DIM, 1e300),
        np.zeros(int(rng.integers(6, 100_000))),
        [[[STATE.tolist()]]],
        {"a": STATE},
        "text",
        None,
    ]
    choices: list[Callable[[], bytes | str]] = [
        lambda: GOOD[: rng.integers(len(GOOD))],
        lambda: rng.bytes(int(rng.integers(1, 2000))),
        lambda: b"\x91" * int(rng.integers(600, 50_000)) + b"\xc0",
        lambda: b"\x81\xa1x" * int(rng.integers(600, 50_000)) + b"\xc0",
        lambda: bytes(msgpack.packb({"observation/state": lie})),
        lambda: bytes(msgpack.packb({"observation/state": many})),
        lambda: pack({**OBSERVATION, "prompt": "x" * int(rng.integers(100_000))}),
        lambda: pack({"prompt": tiny.TASKS[0]}),
        lambda: "observation",
        lambda: pack({**OBSERVATION, "observation/state": states[rng.integers(len(states))]}),
        lambda: pack({**OBSERVATION, "budget": float(rng.normal())}),
        lambda: pack({**OBSERVATION, "deadline_ms": -1}),
        lambda: pack({**OBSERVATION, "sampling": {"x" * int(rng.integers(1, 100_000)): 1}}),
        lambda: pack({**OBSERVATION, "sampling": {"top_k": STATE, "seed": 1e300}}),
    ]
    return choices[rng.integers(len(choices))]()


def check_refused(url: str, frames: Sequence[bytes | str]) -> None:
    """Each of them by a client of its own, all at the same time."""

    async def send_all() -> None:
        await asyncio.gather(*(check_one(url, frame) for frame in frames))

    asyncio.run(send_all())


async def check_one(url: str, frame: bytes | str) -> None:
    async with connect(url, compression=None, open_timeout=60) as socket:
        await socket.recv()
        await socket.send(frame)
        answer = await socket.recv()
        assert isinstance(answer, str), frame
        assert "internal" not in answer, (frame, answer)
        assert len(answer) < 3000, "what was sent is not sent back"
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    policy = make_policy(Path(tmp_path_factory.mktemp("policy")))
    with serving(policy, ServeConfig(port=0, max_batch=2)) as url:
        yield url


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = Path(tmp_path_factory.mktemp("served"))
    folder = make_policy(path).save_pretrained(path / "policy")
    with started(folder, "--log-level", "error") as server:
        yield server


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.lists(frames(), min_size=AT_ONCE, max_size=AT_ONCE))
def test_every_frame_is_answered_with_an_error(url: str, some: list[bytes | str]) -> None:
    check_refused(url, some)


def test_random_frames_while_others_are_served(url: str) -> None:
    rng = np.random.default_rng(0)
    with Client(url) as other:
        for _ in range(6):
            check_refused(url, [broken(rng) for _ in range(AT_ONCE)])
            assert other.infer(OBSERVATION)["budget_used"] == 8


@pytest.mark.slow
def test_ten_thousand_frames_leave_nothing_behind(server: ServerProcess) -> None:
    rng = np.random.default_rng(1)
    rounds = NUM_FRAMES // 2 // AT_ONCE

    @settings(max_examples=rounds, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(frames(), min_size=AT_ONCE, max_size=AT_ONCE))
    def hypotheses(some: list[bytes | str]) -> None:
        check_refused(server.url, some)

    def random_frames(count: int) -> None:
        for _ in range(count):
            check_refused(server.url, [broken(rng) for _ in range(AT_ONCE)])

    with Client(server.url) as other:
        random_frames(rounds // 4)
        seen_mb = [server.rss_mb()]
        random_frames(rounds - rounds // 4)
        seen_mb.append(server.rss_mb())
        hypotheses()
        seen_mb.append(server.rss_mb())
        assert other.infer(OBSERVATION)["budget_used"] == 8
    assert max(seen_mb) < seen_mb[0] + SLACK_MB, seen_mb


def test_a_gigabyte_is_not_taken(server: ServerProcess) -> None:
    """In one frame, and in a thousand parts of one message."""
    block = bytes(1 << 20)
    before = server.rss_mb()
    with connect_here(server.url, compression=None) as socket:
        socket.recv()
        header = b"\x82\xff" + struct.pack(">Q", 1 << 30) + b"\0\0\0\0"
        with suppress(OSError):
            socket.socket.sendall(header)
            for _ in range(1024):
                socket.socket.sendall(block)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    with connect_here(server.url, compression=None) as socket:
        socket.recv()
        with suppress(ConnectionClosed):
            socket.send(block for _ in range(1024))
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)
    assert server.rss_mb() < before + 150, "the limit is 32 MB a message"
    with Client(server.url) as client:
        assert client.infer(OBSERVATION)["budget_used"] == 8
