"""How long a policy takes here."""

from __future__ import annotations

import pytest

from oatkit.data import Dataset
from oatkit.policies.generation import latency_measurement
from oatkit.policies.generation.latency_measurement import measure_latency
from tests.nn.pretended_devices import AsynchronousClock
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


def test_a_stage_takes_as_long_as_the_device_needs(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU all of the time would be in the part that waits first, and deadlines be missed."""
    policy = tiny.make_policy("oat-pow2", dataset)
    batch = policy.read(tiny.batch(policy, dataset))
    clock = AsynchronousClock(monkeypatch)
    stages = clock.timed(latency_measurement.generate_stages, 0.002)
    monkeypatch.setattr(latency_measurement, "generate_stages", stages)
    monkeypatch.setattr(policy.net, "encode", clock.timed(policy.net.encode, 0.5))
    monkeypatch.setattr(policy.tokenizer, "decode", clock.timed(policy.tokenizer.decode, 0.003))
    found = measure_latency(policy.net, policy.tokenizer, policy.schedule, batch)
    assert found.stages_ms == pytest.approx([2.0] * policy.schedule.calls)
    assert found.decode_ms == pytest.approx(3.0)
