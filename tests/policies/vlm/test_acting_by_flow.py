"""Acting by a vision-language policy's flow expert: one pass over the context, then Euler steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy, Prediction
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.types import Sampling
from oatkit.types.observation_keys import IMAGES
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families


@families
def test_acting_prefills_once_and_samples_nothing(
    family: str,
    cotrained: dict[str, Policy],
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = cotrained[family]
    calls: list[str] = []
    for name in ("prefill", "run", "run_cached"):
        real = getattr(Backbone, name)

        def counted(*args: object, _real: object = real, _name: str = name, **kw: object) -> object:
            calls.append(_name)
            return _real(*args, **kw)  # type: ignore[operator]

        monkeypatch.setattr(Backbone, name, counted)
    observation = tiny_vlm.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    assert calls == ["prefill"]
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    assert found.ids.shape == (3, 0)
    assert found.budget.tolist() == [0] * 3
    assert found.calls.tolist() == [tiny_vlm.EXPERT.num_steps] * 3
    again = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(again.chunk, found.chunk)


@families
def test_a_batch_is_its_rows(family: str, cotrained: dict[str, Policy], dataset: Dataset) -> None:
    policy = cotrained[family]
    observation = tiny_vlm.batch(policy, dataset) | {"task": ["open", "open it now please", "go"]}
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_allclose(alone.chunk[0], together.chunk[i], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_first_draw_is_as_it_would_be_alone(
    temperature: float, cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy = cotrained["qwen3-vl"]
    observation = tiny_vlm.batch(policy, dataset)

    def predict(draws: int) -> Prediction:
        own, sampling = [seeded(seed) for seed in range(3)], Sampling(temperature=temperature)
        return policy.predict_action_chunk(
            observation, sampling=sampling, generator=own, draws=draws
        )

    alone, three = predict(1), predict(3)
    np.testing.assert_allclose(three.chunk, alone.chunk, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(three.draws[:, 0], three.chunk)
    spread = np.abs(three.draws[:, 1:] - three.chunk[:, None]).max(axis=(2, 3))
    assert (spread > 1e-3).all()  # the others have noise of their own


def test_a_missing_camera_is_masked_for_the_expert_too(
    cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy, key = cotrained["qwen3-vl"], f"{IMAGES}front"
    observation = tiny.row(tiny_vlm.batch(policy, dataset), 0)
    without = policy.predict_action_chunk(observation | {key: None}, generator=seeded())
    dark = policy.predict_action_chunk(
        observation | {key: 0 * observation[key]}, generator=seeded()
    )
    assert np.abs(without.chunk - dark.chunk).max() > 1e-4


def test_without_temperature_there_is_no_noise(
    cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy = cotrained["paligemma2"]
    observation = tiny_vlm.batch(policy, dataset)
    greedy = [
        policy.predict_action_chunk(observation, sampling=Sampling(0.0), generator=seeded(i)).chunk
        for i in range(2)
    ]
    np.testing.assert_array_equal(greedy[0], greedy[1])
    read = policy.read(observation)
    with torch.inference_mode():
        context = policy.net.encode(read)
        wanted = policy.net.flow(context, torch.zeros(3, *policy.net.chunk_shape))
    np.testing.assert_allclose(greedy[0], policy.actions.unnormalize(wanted), atol=1e-6)
    half = [
        policy.predict_action_chunk(observation, sampling=Sampling(t), generator=seeded()).chunk
        for t in (0.5, 1.0)
    ]
    spread = [np.abs(chunk - greedy[0]).max() for chunk in half]
    assert 0 < spread[0] < spread[1]


def test_a_budget_is_a_number_of_euler_steps(
    cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy = cotrained["paligemma2"]
    observation = tiny_vlm.batch(policy, dataset)
    read = policy.read(observation)
    for steps in (1, 3):
        found = policy.predict_action_chunk(
            observation, budget=steps, sampling=Sampling(0.0), generator=seeded()
        )
        with torch.inference_mode():
            context = policy.net.encode(read)
            wanted = policy.net.flow(context, torch.zeros(3, *policy.net.chunk_shape), steps)
        assert found.calls.tolist() == [steps] * 3
        np.testing.assert_allclose(found.chunk, policy.actions.unnormalize(wanted), atol=1e-6)
    for budget in (0, "auto", 2.5, 101):
        with pytest.raises(ValueError, match="expected a number of Euler steps"):
            policy.predict_action_chunk(observation, budget=budget)  # type: ignore[arg-type]


def test_a_deadline_chooses_the_steps_that_fit(
    cotrained: dict[str, Policy], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = cotrained["paligemma2"]
    observation = tiny_vlm.batch(policy, dataset)
    monkeypatch.setattr(policy.flow_predictor, "step_ms", lambda _: 1e5)
    calls = [
        policy.predict_action_chunk(observation, deadline_ms=1e5 * steps + 5e4).calls[0]
        for steps in (1, 2, 9)
    ]
    assert calls == [1, 2, tiny_vlm.EXPERT.num_steps]
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).calls[0] == 1
    more = policy.predict_action_chunk(observation, budget=9, deadline_ms=5.5e5)
    assert more.calls[0] == 5


def test_the_time_of_a_step_is_measured_once(cotrained: dict[str, Policy]) -> None:
    predictor = cotrained["paligemma2"].flow_predictor
    first = predictor.step_ms(2)
    assert first > 0
    assert predictor.step_ms(2) is first
