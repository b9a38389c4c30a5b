"""Acting by the flow expert: one pass over the context, then Euler steps."""

from __future__ import annotations

import numpy as np
import pytest

from oatkit.data import Dataset
from oatkit.policies import VlmPolicy
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.types.observation_keys import IMAGES
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families


@families
def test_acting_prefills_once_and_samples_nothing(
    family: str,
    cotrained: dict[str, VlmPolicy],
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
def test_a_batch_is_its_rows(
    family: str, cotrained: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = cotrained[family]
    observation = tiny_vlm.batch(policy, dataset) | {"task": ["open", "open it now please", "go"]}
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_allclose(alone.chunk[0], together.chunk[i], rtol=1e-3, atol=1e-3)


def test_a_missing_camera_is_masked_for_the_expert_too(
    cotrained: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy, key = cotrained["qwen3-vl"], f"{IMAGES}front"
    observation = tiny.row(tiny_vlm.batch(policy, dataset), 0)
    without = policy.predict_action_chunk(observation | {key: None}, generator=seeded())
    dark = policy.predict_action_chunk(
        observation | {key: 0 * observation[key]}, generator=seeded()
    )
    assert np.abs(without.chunk - dark.chunk).max() > 1e-4
