"""How long a policy takes here."""

from __future__ import annotations

import pytest

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation import latency_measurement
from oatkit.policies.generation.latency_measurement import measure_costs, measure_latency
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


def slow_parts(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> AsynchronousClock:
    """A clock on which a stage takes 2 ms, decoding 3 ms and encoding half a second."""
    clock = AsynchronousClock(monkeypatch)
    stages = clock.timed(latency_measurement.generate_stages, 0.002)
    monkeypatch.setattr(latency_measurement, "generate_stages", stages)
    monkeypatch.setattr(policy.net, "encode", clock.timed(policy.net.encode, 0.5))
    decode = clock.timed(policy.tokenizer.decode_normalized, 0.003)
    monkeypatch.setattr(policy.tokenizer, "decode_normalized", decode)
    return clock


def test_a_stage_takes_as_long_as_the_device_needs(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU all of the time would be in the part that waits first, and deadlines be missed."""
    policy = tiny.make_policy("oat-pow2", dataset)
    batch = policy.read(tiny.batch(policy, dataset))
    slow_parts(policy, monkeypatch)
    found = measure_latency(policy.net, policy.tokenizer, policy.schedule, batch)
    assert found.stages_ms == pytest.approx([2.0] * policy.schedule.calls)
    assert found.decode_ms == pytest.approx(3.0)


def test_what_stopping_after_a_stage_takes(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding is part of it; and all tokens are timed without a wait between their stages."""
    policy = tiny.make_policy("oat-pow2", dataset)
    batch = policy.read(tiny.batch(policy, dataset))
    clock = slow_parts(policy, monkeypatch)
    real, waits = latency_measurement.read_clock, []

    def slow_clock(device: object) -> float:
        """A wait that takes a millisecond, as a GPU that runs dry between two stages would."""
        waits.append(device)
        clock.launch(0.001)
        return real(device)  # type: ignore[arg-type]

    monkeypatch.setattr(latency_measurement, "read_clock", slow_clock)
    found = measure_costs(policy.net, policy.tokenizer, policy.schedule, batch)
    assert found.stopped_ms == pytest.approx([7.0, 10.0, 13.0, 16.0])
    assert found.all_ms == pytest.approx(12.0)
