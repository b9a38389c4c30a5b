"""What a reply holds."""

from __future__ import annotations

import numpy as np
from oatkit_client import Client
from oatkit_client.wire import pack, unpack
from websockets.sync.client import connect

from tests.serve.slow import OBSERVATION


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


def test_only_the_actions_are_an_array(url: str) -> None:
    """openpi's ActionChunkBroker indexes every array by the step in the chunk."""
    with Client(url) as client:
        reply = client.infer(OBSERVATION)
    assert [key for key, value in reply.items() if isinstance(value, np.ndarray)] == ["actions"]
