"""Acting by a flow: noise, Euler steps as budgets, and deadlines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.flow_predictor import FlowNet
from oatkit.policies.observation.observations import Observations
from oatkit.types import Sampling
from tests.policies import tiny
from tests.policies.tiny import seeded

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def policy(dataset: Dataset) -> Policy:
    return tiny.make_flow_policy(dataset)


def test_acting_is_repeatable_and_noise_is_scaled(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    assert found.ids.shape == (3, 0)
    assert found.budget.tolist() == [0] * 3
    again = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(again.chunk, found.chunk)
    other = policy.predict_action_chunk(observation, generator=seeded(1))
    assert (other.chunk != found.chunk).any()
    greedy = [policy.predict_action_chunk(observation, sampling=GREEDY).chunk for _ in range(2)]
    np.testing.assert_array_equal(greedy[0], greedy[1])
    with torch.inference_mode():
        context = policy.net.encode(policy.read(observation))
        wanted = policy.net.flow(context, torch.zeros(3, *policy.net.chunk_shape), 10)
    raw = policy.tokenizer.normalizer.unnormalize(wanted)
    np.testing.assert_allclose(greedy[0], raw, atol=1e-5, rtol=1e-5)


def test_a_batch_is_its_rows(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset)
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_allclose(alone.chunk[0], together.chunk[i], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sampling", [Sampling(), GREEDY])
def test_the_first_draw_is_as_it_would_be_alone(
    sampling: Sampling, policy: Policy, dataset: Dataset
) -> None:
    observation = tiny.batch(policy, dataset)
    own = [seeded(seed) for seed in range(3)]
    alone = policy.predict_action_chunk(observation, sampling=sampling, generator=own)
    own = [seeded(seed) for seed in range(3)]
    four = policy.predict_action_chunk(observation, sampling=sampling, generator=own, draws=4)
    np.testing.assert_allclose(four.chunk, alone.chunk, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(four.draws[:, 0], four.chunk)
    assert len(np.unique(four.draws.reshape(12, -1).round(3), axis=0)) == 12


def test_a_budget_is_a_number_of_euler_steps(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset)
    assert policy.budgets == (1, 2, 5, 10)
    chunks = []
    for steps in policy.budgets:
        found = policy.predict_action_chunk(observation, budget=steps, sampling=GREEDY)
        assert found.calls.tolist() == [steps] * 3
        chunks.append(found.chunk)
    assert len({chunk.tobytes() for chunk in chunks}) == 4
    whole = policy.predict_action_chunk(observation, sampling=GREEDY)
    np.testing.assert_array_equal(whole.chunk, chunks[-1])


def test_a_deadline_chooses_the_steps_that_fit(
    policy: Policy, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    observation = tiny.batch(policy, dataset)
    monkeypatch.setattr(policy.flow_predictor, "step_ms", lambda _: 1e5)
    calls = [
        policy.predict_action_chunk(observation, deadline_ms=1e5 * steps + 5e4).calls[0]
        for steps in (1, 2, 4, 5, 9, 10)
    ]
    assert calls == [1, 2, 2, 5, 5, 10]
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).calls[0] == 1


@pytest.mark.parametrize("budget", [0, "auto", 2.5, 101, True])
def test_budgets_that_are_none(policy: Policy, dataset: Dataset, budget: object) -> None:
    with pytest.raises(ValueError, match="expected a number of Euler steps from 1 to 100"):
        policy.predict_action_chunk(tiny.batch(policy, dataset), budget=budget)  # type: ignore[arg-type]


def test_the_time_of_a_step_is_measured_once(policy: Policy) -> None:
    predictor = policy.flow_predictor
    first = predictor.step_ms(2)
    assert first > 0
    assert predictor.step_ms(2) is first


def test_draws_that_were_never_measured_take_as_many_times_as_long(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = tiny.make_flow_policy(dataset).flow_predictor
    measured: list[int] = []

    def measure(observations: Observations) -> float:
        measured.append(len(observations))
        return 5.0

    monkeypatch.setattr(predictor, "_measure_step", measure)
    assert [predictor._step_ms_of_draws(2, draws) for draws in (3, 1)] == [15.0, 5.0]
    assert measured == [2]
    assert predictor.step_ms(6) == predictor._step_ms_of_draws(2, 3) == 5.0


def test_rows_between_measured_ones_take_a_time_between_theirs(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = tiny.make_flow_policy(dataset).flow_predictor
    monkeypatch.setattr(predictor, "_measure_step", lambda observations: 10.0 * len(observations))
    predictor.step_ms(2)
    predictor.step_ms(4)
    monkeypatch.setattr(predictor, "_measure_step", pytest.fail)
    assert predictor._step_ms_of_draws(3, 1) == 30.0


def test_a_light_network_is_a_flow_network(policy: Policy) -> None:
    net: FlowNet = policy.net
    assert net.chunk_shape == (tiny.HORIZON, tiny.ACTION_DIM)
    assert net.num_steps == 10
