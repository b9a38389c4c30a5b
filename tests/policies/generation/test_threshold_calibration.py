"""Thresholds of `budget="auto"` from held-out observations."""

from __future__ import annotations

import pytest
import torch

from oatkit.data import Dataset
from tests.policies import tiny
from tests.policies.tiny import seeded


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


def test_blocks_of_any_size_find_the_same(dataset: Dataset) -> None:
    found = []
    for rows_at_once in (5, 32):
        policy = tiny.make_policy("klt", dataset)
        policy.rows_at_once = rows_at_once  # type: ignore[misc]
        observation = tiny.batch(policy, dataset, 32)
        policy.calibrate(
            policy.read(observation), torch.from_numpy(observation["action"]), seeded()
        )
        assert policy.auto is not None
        found.append((policy.auto.change, policy.auto.entropy_bits))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
