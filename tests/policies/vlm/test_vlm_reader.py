"""What a vision-language policy reads: any instruction, and cameras that may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.data import Dataset
from oatkit.policies import VlmPolicy
from oatkit.policies.observation.observations import Observations
from oatkit.types.observation_keys import IMAGES
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm

FRONT = f"{IMAGES}front"


@pytest.fixture(scope="module")
def policy(checkpoints: dict[str, Path], dataset: Dataset) -> VlmPolicy:
    return tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset)


def test_requests_that_were_read_one_by_one_are_a_batch(
    policy: VlmPolicy, dataset: Dataset
) -> None:
    batch = tiny_vlm.batch(policy, dataset)
    batch["task"] = ["wave", "wave both hands slowly", "stop"]
    rows: list[dict[str, Any]] = [tiny.row(batch, index) for index in range(3)]
    rows[1][FRONT] = None
    together = Observations.cat([policy.read(row) for row in rows])
    assert together.is_seen[:, 0, 0].tolist() == [True, False, True]
    found = policy.predict_action_chunk(together, generator=[seeded(i) for i in range(3)])
    for index, row in enumerate(rows):
        alone = policy.predict_action_chunk(row, generator=[seeded(index)])
        np.testing.assert_allclose(alone.entropy_bits[0], found.entropy_bits[index], atol=1e-4)


def test_a_simulator_may_show_more(policy: VlmPolicy, dataset: Dataset) -> None:
    batch = tiny_vlm.batch(policy, dataset, 1) | {f"{IMAGES}wrist": np.zeros(3)}
    with pytest.raises(ValueError, match="unknown camera 'wrist'"):
        policy.read(batch)
    read = policy.read(batch | {"task": "an instruction never heard"}, allow_more=True)
    assert len(read.images) == 1
    assert read.task.shape[1] > 2
