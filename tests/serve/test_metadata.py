"""What clients hear first."""

from __future__ import annotations

from oatkit_client.wire import unpack
from websockets.sync.client import connect

from oatkit.policies import Policy
from tests.policies import tiny


def test_metadata_comes_first(url: str, light: Policy) -> None:
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
    assert metadata["has_execute_steps"] is False
    assert metadata["fingerprint"] == light.digest
    assert metadata["tasks"] == list(light.spec.tasks)
    assert metadata["action_names"] == [f"action_{i}" for i in range(3)]
    assert metadata["state_names"] == list("abcde")
    assert (metadata["state_dim"], metadata["history"]) == (tiny.STATE_DIM, 1)
    assert (metadata["cameras"], metadata["fps"]) == ({}, None)
    assert (metadata["heads"], metadata["state_keys"]) == (["tokens"], ["observation.state"])
    assert metadata["device"] == "the CPU"
    assert metadata["actions"] == "absolute"
