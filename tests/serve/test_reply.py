"""What a reply holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oatkit_client import ChunkQueue, Client, ServerError
from oatkit_client.wire import pack, unpack
from websockets.sync.client import connect

from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.policies import tiny
from tests.serve.slow import OBSERVATION, make_policy


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
    assert reply["attempts"] == 1
    assert set(reply["server_timing"]) == {"infer_ms", "queue_ms"}
    assert (second["budget_used"], second["calls"]) == (2, 2)
    assert second["server_timing"]["prev_total_ms"] >= reply["server_timing"]["infer_ms"]


def test_a_calibrated_policy_says_how_much_to_execute(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    policy.execution = table = tiny.two_lengths(edge_bits=99.0)
    with serving(policy, ServeConfig(port=0, max_batch=1)) as url, Client(url) as client:
        assert client.metadata["has_execute_steps"] is True
        reply = client.infer(OBSERVATION)
        tokens = client.infer({**OBSERVATION, "tokens_only": True})
        queue = ChunkQueue(client, "auto")
        for _ in range(9):
            queue.step(OBSERVATION)
    assert type(reply["execute_steps"]) is int
    assert reply["execute_steps"] == tokens["execute_steps"] == table.bin_steps[0]


def test_tokens_alone_are_refused_where_chunks_are_corrected(tmp_path: Path) -> None:
    policy = make_policy(tmp_path, offset_layers=1)
    wanted = policy.predict_action_chunk(
        {"observation.state": OBSERVATION["observation/state"], "task": OBSERVATION["prompt"]},
        sampling=Sampling(temperature=0.0),
    )
    config = ServeConfig(port=0, max_batch=1, sampling=Sampling(temperature=0.0))
    with serving(policy, config) as url, Client(url) as client:
        reply = client.infer(OBSERVATION)
        with pytest.raises(ServerError, match="its tokens alone are not its actions: ask without"):
            client.infer({**OBSERVATION, "tokens_only": True})
    np.testing.assert_allclose(reply["actions"], wanted.chunk, rtol=1e-4, atol=1e-5)


def test_a_reply_says_why_generation_stopped(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    policy.auto = AutoThresholds((2,), (99.0,))
    with serving(policy, ServeConfig(port=0, max_batch=1)) as url, Client(url) as client:
        assert client.infer(OBSERVATION)["stopped"] == "all"
        assert client.infer(OBSERVATION, budget=4)["stopped"] == "budget"
        assert client.infer(OBSERVATION, budget="auto")["stopped"] == "auto"
        assert client.infer(OBSERVATION, budget=4, deadline_ms=60_000)["stopped"] == "budget"
        for budget in (None, 4, "auto"):
            late = client.infer(OBSERVATION, budget=budget, deadline_ms=1e-3)
            assert (late["stopped"], late["budget_used"]) == ("deadline", 1)


def test_only_the_actions_are_an_array(url: str) -> None:
    """openpi's ActionChunkBroker indexes every array by the step in the chunk."""
    with Client(url) as client:
        reply = client.infer(OBSERVATION)
    assert [key for key, value in reply.items() if isinstance(value, np.ndarray)] == ["actions"]
