"""The keys on the wire: typed once, documented, and the same as in recorded conversations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from oatkit_client import Client, protocol
from oatkit_client.key_map import IMAGES, STATE, KeyMap
from oatkit_client.protocol import REQUEST_KEYS, Metadata, Reply, ServerTiming, TokensReply
from oatkit_client.wire import pack, unpack
from websockets.sync.client import connect

from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.types import STOP_REASONS, Sampling
from tests.oatkit_client.protocol_tables import PAGE, TABLES, rows
from tests.policies import tiny
from tests.serve.slow import OBSERVATION, make_policy

FRAMES = Path(__file__).parent / "frames"
"""What client and server of the first version sent each other."""
SINCE_THEN = {
    "has_execute_steps": False,
    "heads": ["tokens"],
    "state_keys": [STATE],
    "device": "the CPU",
    "actions": "absolute",
    "takes_committed": True,
    "embodiments": {},
}
"""Further metadata of the present version."""
SAID_SINCE_THEN = {"stopped": "all", "attempts": 1}
"""Further keys of a reply."""
IMAGE = np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8)
ASKED: dict[str, Callable[[Client], Any]] = {
    "first": lambda client: client.infer(OBSERVATION),
    "second": lambda client: client.infer(OBSERVATION),
    "budget": lambda client: client.infer(OBSERVATION, budget=2),
    "deadline": lambda client: client.infer(OBSERVATION, budget=4, deadline_ms=60_000),
    "tokens_only": lambda client: client.infer({**OBSERVATION, "tokens_only": True}),
}
"""How those frames came to be, in order."""


def frame(name: str) -> bytes:
    return (FRAMES / f"{name}.msgpack").read_bytes()


def types(value: Any) -> Any:
    """The same with types instead of values; lists and texts of any length are alike."""
    if isinstance(value, dict):
        return {key: types(one) for key, one in value.items()}
    if isinstance(value, list):
        return [types(one) for one in value[:1]]
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape)
    return type(value).__name__


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    policy = make_policy(Path(tmp_path_factory.mktemp("policy")))
    policy.extras["data"] = {"state_names": list("abcde")}
    return policy


def talk(policy: Policy, *requests: bytes) -> list[Any]:
    """The metadata, then the reply to each request."""
    config = ServeConfig(port=0, max_batch=1, sampling=Sampling(0))
    with serving(policy, config) as url, connect(url, compression=None) as socket:
        replies = [unpack(socket.recv())]
        for request in requests:
            socket.send(request)
            replies.append(unpack(socket.recv()))
    return replies


def test_a_server_answers_old_requests_as_it_did(light: Policy) -> None:
    requests = [frame(f"light_{name}_request") for name in ASKED]
    metadata, *replies = talk(light, *requests)
    recorded = unpack(frame("light_metadata")) | SINCE_THEN
    assert types(metadata) == types(recorded)
    assert list(metadata) == list(recorded)
    for name, reply in zip(ASKED, replies, strict=True):
        before = unpack(frame(f"light_{name}_reply"))
        assert types(reply) == types(before | SAID_SINCE_THEN), name
        assert [key for key in reply if key not in SAID_SINCE_THEN] == list(before), name
        assert reply["tokens"] == before["tokens"], name


def test_cameras_history_and_warnings_are_as_they_were(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, history=2, cameras=("front",))
    metadata, reply = talk(policy, frame("camera_repeated_request"))
    assert types(metadata) == types(unpack(frame("camera_metadata")) | SINCE_THEN)
    before = unpack(frame("camera_repeated_reply"))
    assert types(reply) == types(before | SAID_SINCE_THEN)
    assert reply["warning"] == before["warning"]


def test_a_client_sends_the_same_bytes(light: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def recorded(message: Any) -> bytes:
        sent.append(pack(message))
        return sent[-1]

    monkeypatch.setattr("oatkit_client.client.pack", recorded)
    config = ServeConfig(port=0, max_batch=1)
    with serving(light, config) as url, Client(url) as client:
        for ask in ASKED.values():
            ask(client)
    assert sent == [frame(f"light_{name}_request") for name in ASKED]


def test_messages_have_the_keys_that_are_declared(light: Policy) -> None:
    late = pack({**OBSERVATION, "deadline_ms": 1e4})
    metadata, first, second = talk(light, late, late)
    assert set(metadata) == set(Metadata.__annotations__)
    assert set(metadata["normalization"]) == set(protocol.Normalization.__annotations__)
    sometimes = {"warning", "execute_steps", "stale", "draws"}
    assert set(second) == set(Reply.__annotations__) - sometimes
    assert set(first["server_timing"]) == set(ServerTiming.__annotations__) - {"prev_total_ms"}
    assert set(second["server_timing"]) == set(ServerTiming.__annotations__)
    assert set(Reply.__annotations__) - set(TokensReply.__annotations__) == {"actions"}
    assert get_args(protocol.StopReason) == STOP_REASONS


def test_options_and_observations_have_different_keys() -> None:
    keys = KeyMap.for_parts([STATE, f"{IMAGES}front"])
    assert not set(keys.names) & set(REQUEST_KEYS)


@pytest.mark.parametrize("table", TABLES)
def test_the_page_on_serving_says_the_same(table: str) -> None:
    assert rows(table) in PAGE.read_text(), (
        f"`python -m tests.oatkit_client.protocol_tables` prints the table {table}"
    )


def test_the_page_names_the_keys_of_observations() -> None:
    keys = KeyMap.for_parts([STATE, f"{IMAGES}X"])
    for name, key in keys.preferred.items():
        assert f"| `{key}` | `{name}`" in PAGE.read_text()
