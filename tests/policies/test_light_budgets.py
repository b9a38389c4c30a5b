"""The light policy with fewer tokens: budgets, `auto`, deadlines, other schedules."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import LightPolicy
from oatkit.policies.generation import early_stop as auto
from oatkit.policies.generation import prediction
from oatkit.types import Schedule
from tests.policies import tiny
from tests.policies.tiny import seeded

PREFIXED = ("oat", "oat-pow2", "klt")


@pytest.mark.parametrize("kind", PREFIXED)
def test_budgets_nest(kind: str, policies: dict[str, LightPolicy], dataset: Dataset) -> None:
    """The same draws at every budget; inside a block the surplus is dropped."""
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    full = policy.predict_action_chunk(observation, generator=seeded())
    for budget in np.arange(1, policy.tokenizer.max_tokens + 1):
        found = policy.predict_action_chunk(observation, budget=budget, generator=seeded())
        np.testing.assert_array_equal(found.ids[:, :budget], full.ids[:, :budget])
        wanted = policy.tokenizer.decode(full.ids, budget=budget)
        np.testing.assert_allclose(found.chunk, wanted, rtol=1e-4, atol=1e-5)
        assert found.budget.tolist() == [budget] * 3
        assert found.calls.tolist() == [policy.schedule.calls_for(budget)] * 3
        assert found.ids.shape[1] == policy.schedule.endpoints[found.calls[0] - 1]


def test_auto_stops_by_its_rules_and_never_looks_ahead(
    policies: dict[str, LightPolicy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.batch(policy, dataset, 16)
    tokenizer, endpoints = policy.tokenizer, policy.schedule.endpoints
    full = policy.predict_action_chunk(observation, generator=seeded())
    chunks = [tokenizer.decode(full.ids, budget=b) for b in endpoints]
    scale = tokenizer.normalizer.scale
    change = np.stack(
        [np.full(16, np.inf)]
        + [np.sqrt(np.square((b - a) / scale).mean(axis=(1, 2))) for a, b in pairwise(chunks)],
        axis=1,
    )
    blocks = pairwise((0, *endpoints))
    entropy = np.stack([full.entropy_bits[:, a:b].mean(axis=1) for a, b in blocks], axis=1)
    # between two rows, so that rounding decides nothing
    most_change, most_entropy = np.quantile(change[:, 1:], 0.503), np.quantile(entropy, 0.103)
    limits = auto.AutoThresholds(float(most_change), float(most_entropy))
    policy.auto = limits
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    stops = (change <= limits.change) | (entropy <= limits.entropy_bits)
    stops[:, -1] = True
    stage = stops.argmax(axis=1)
    assert len(set(stage.tolist())) > 1, "rows stop at different stages"
    assert found.calls.tolist() == (stage + 1).tolist()
    assert found.budget.tolist() == [endpoints[s] for s in stage]
    for i, s in enumerate(stage):
        np.testing.assert_allclose(found.chunk[i], chunks[s][i], rtol=1e-4, atol=1e-5)
        alone = policy.predict_action_chunk(
            tiny.row(observation, i), budget="auto", generator=seeded()
        )
        assert alone.ids.shape[1] == alone.budget[0], "no stage is run past the stop"
    policy.auto = auto.AutoThresholds(-1.0, -1.0)
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    np.testing.assert_array_equal(found.ids, full.ids)


def test_thresholds_are_the_cheapest_that_are_allowed() -> None:
    rng = np.random.default_rng(0)
    excess = np.sort(rng.random((200, 4)), axis=1)[:, ::-1] * [1, 1, 1, 0]
    excess[:100, 1:] = 0  # half of the rows are finished after stage 2
    change = np.concatenate([np.full((200, 1), np.inf), -np.diff(excess, axis=1)], axis=1)
    change[:100, 1] = 0
    entropy = rng.random((200, 4)) + 1

    def mean_calls_and_excess(allowed: float) -> tuple[float, float]:
        found = auto.calibrate(change, entropy, excess, allowed)
        stops = (change <= found.change) | (entropy <= found.entropy_bits)
        stops[:, -1] = True
        stage = stops.argmax(axis=1)
        return float(stage.mean()) + 1, float(excess[np.arange(200), stage].mean())

    none, some, much = (mean_calls_and_excess(allowed) for allowed in (0.0, 0.1, 0.3))
    assert none == (3, 0), "two calls for one half, four for the other"
    assert none[0] > some[0] > much[0]
    assert some[1] <= 0.1
    assert much[1] <= 0.3
    flat = auto.calibrate(change[:, :1], entropy[:, :1], excess[:, :1], 1.0)
    assert flat == auto.AutoThresholds(-1.0, -1.0)


def test_a_policy_calibrates_itself(dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset, 32)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        policy.predict_action_chunk(observation, budget="auto")
    read = policy.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert (found.calls <= policy.schedule.calls).all()
    whole = tiny.make_policy("bin", dataset)
    whole.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert whole.auto is None


def test_a_deadline_takes_the_last_trained_budget_that_fits(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks 1 ms a stage, and a table that says so."""
    policy = tiny.make_policy("oat", dataset)  # token-wise, trained at 1, 2, 4 and 6
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    policy.acting.latencies[1, policy.schedule] = prediction.Latency((1.0,) * 6, 0.5)
    now = [0.0]
    real = prediction.generate

    def ticking(*args: Any, **kwargs: Any) -> Any:
        for stage in real(*args, **kwargs):
            now[0] += 0.001
            yield stage

    monkeypatch.setattr(prediction, "generate", ticking)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for deadline_ms, budget in (
        (0.1, 1),
        (1.6, 1),
        (2.6, 2),
        (3.6, 2),
        (4.6, 4),
        (6.6, 6),
        (99, 6),
    ):
        found = policy.predict_action_chunk(observation, deadline_ms=deadline_ms)
        assert (found.budget[0], found.calls[0]) == (budget, budget), deadline_ms
    found = policy.predict_action_chunk(observation, deadline_ms=99, budget=3)
    assert found.budget[0] == 3


def test_latency_is_measured_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    latency = policy.latency()
    assert len(latency.stages_ms) == policy.schedule.calls
    assert min(*latency.stages_ms, latency.decode_ms) > 0
    assert policy.latency() is latency
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    assert policy.predict_action_chunk(observation, deadline_ms=1e6).budget[0] == 8
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).budget[0] == 1
    whole = tiny.make_policy("bin", dataset)
    with pytest.warns(UserWarning, match="bin decodes only all of its tokens: deadline_ms is ig"):
        whole.predict_action_chunk(observation, deadline_ms=1)


def test_another_schedule_warns_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    observation = tiny.batch(policy, dataset)
    with pytest.warns(UserWarning, match=r"trained to generate \[1, 2, 4, 8\] tokens stage by"):
        found = policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
    assert found.calls.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
        policy.predict_action_chunk(observation, schedule=Schedule.pow2(8))
    with pytest.warns(UserWarning, match="stage by stage"):
        found = policy.predict_action_chunk(observation, schedule=Schedule((1, 3)))
    assert found.budget.tolist() == [3, 3, 3]
