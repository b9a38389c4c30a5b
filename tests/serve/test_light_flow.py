"""`light-flow` behind the server: Euler steps are its budgets, and deadlines choose them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oatkit_client import Client, ServerError

import oatkit
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.policies import tiny

OBSERVATION = {
    "observation/state": np.zeros(tiny.STATE_DIM, np.float32),
    "prompt": tiny.TASKS[0],
}


def test_it_is_served(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(tiny.write_dataset(tmp_path / "data"))
    policy = tiny.make_flow_policy(dataset, history=1)
    observation = {"observation.state": OBSERVATION["observation/state"], "task": tiny.TASKS[0]}
    wanted = policy.predict_action_chunk(observation, budget=5, sampling=Sampling(0))
    with serving(policy, ServeConfig(port=0, max_batch=2)) as url, Client(url) as client:
        assert client.metadata["head"] == "flow"
        assert client.metadata["budgets"] == [1, 2, 5, 10]
        reply = client.infer({**OBSERVATION, "sampling": {"temperature": 0}}, budget=5)
        np.testing.assert_allclose(reply["actions"], wanted.chunk, rtol=1e-5, atol=1e-5)
        assert (reply["tokens"], reply["budget_used"], reply["calls"]) == ([], 5, 5)
        easy = client.infer(OBSERVATION, deadline_ms=1e5)
        assert (easy["budget_used"], easy["deadline_met"]) == (10, True)
        assert client.infer(OBSERVATION, deadline_ms=1e-3)["budget_used"] == 1
        with pytest.raises(ServerError, match="expected a number of Euler steps"):
            client.infer(OBSERVATION, budget="auto")
        with pytest.raises(ServerError, match="gives no tokens: ask without tokens_only"):
            client.infer({**OBSERVATION, "tokens_only": True})
        with pytest.raises(ServerError, match="temperature is -1"):
            client.infer({**OBSERVATION, "sampling": {"temperature": -1}})
