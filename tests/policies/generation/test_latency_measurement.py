"""How long a policy takes here."""

from __future__ import annotations

import pytest

from oatkit.data import Dataset
from tests.policies import tiny


def test_latency_is_measured_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    latency = policy.token_predictor.latency()
    assert len(latency.stages_ms) == policy.schedule.calls
    assert min(*latency.stages_ms, latency.decode_ms) > 0
    assert policy.token_predictor.latency() is latency
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    assert policy.predict_action_chunk(observation, deadline_ms=1e6).budget[0] == 8
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).budget[0] == 1
    whole = tiny.make_policy("bin", dataset)
    with pytest.warns(UserWarning, match="bin decodes only all of its tokens: deadline_ms is ig"):
        whole.predict_action_chunk(observation, deadline_ms=1)
