"""Thresholds of `budget="auto"` from held-out observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation import threshold_calibration
from oatkit.policies.generation.early_stop import AutoThresholds, StageCosts
from oatkit.policies.generation.threshold_calibration import squared_distance
from oatkit.types import Sampling
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
    assert max(policy.auto.num_tokens, default=0) < policy.tokenizer.max_tokens
    whole = tiny.make_policy("bin", dataset)
    whole.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert whole.auto is None


def pretend_costs(monkeypatch: pytest.MonkeyPatch, stage_ms: float) -> None:
    """A machine on which every stage takes so long, and decoding a millisecond."""

    def measured(
        net: object, tokenizer: object, schedule: object, observations: object, correct: object
    ) -> object:
        assert len(observations) == 1  # type: ignore[arg-type]
        stopped_ms = 1 + stage_ms * np.arange(1, schedule.calls + 1)  # type: ignore[attr-defined]
        return StageCosts(stopped_ms, float(stopped_ms[-1]))

    monkeypatch.setattr(threshold_calibration, "measure_costs", measured)


def test_blocks_of_any_size_find_the_same(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_costs(monkeypatch, 1.0)
    monkeypatch.setattr(threshold_calibration, "MARGIN", 2.0)
    found = []
    for rows_at_once in (5, 32):
        policy = tiny.make_policy("klt", dataset)
        policy.rows_at_once = rows_at_once  # type: ignore[misc]
        observation = tiny.batch(policy, dataset, 32)
        policy.calibrate(
            policy.read(observation), torch.from_numpy(observation["action"]), seeded()
        )
        assert policy.auto is not None
        found.append(policy.auto)
    assert found[0].num_tokens
    assert found[0].num_tokens == found[1].num_tokens
    assert found[0].entropy_bits == pytest.approx(found[1].entropy_bits, rel=1e-4)


@pytest.mark.parametrize("stage_ms", [0.0, 1.0])
def test_thresholds_depend_on_the_machine(
    stage_ms: float, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stages cost nothing, none is left out, however little it would change."""
    pretend_costs(monkeypatch, stage_ms)
    monkeypatch.setattr(threshold_calibration, "MARGIN", 1e6)
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset, 32)
    actions_BTA = torch.from_numpy(observation["action"])
    policy.calibrate(policy.read(observation), actions_BTA, seeded())
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    if stage_ms == 0:
        assert policy.auto == AutoThresholds()
        assert found.budget.tolist() == [6] * 32
    else:
        assert found.budget.tolist() == [1] * 32


def test_the_chunk_stays_as_near_to_that_of_all_tokens_as_the_margin_says(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_costs(monkeypatch, 1.0)
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset, 64)
    wanted_BTA = torch.from_numpy(observation["action"])
    scale_A = torch.tensor(policy.tokenizer.normalizer.scale, dtype=torch.float32)
    coded_BTA = policy.tokenizer.decode(policy.tokenizer.encode(wanted_BTA))
    lost = float(squared_distance(coded_BTA, wanted_BTA, scale_A).mean())
    used = []
    for margin in (0.25, 2.0, 8.0):
        monkeypatch.setattr(threshold_calibration, "MARGIN", margin)
        policy.calibrate(policy.read(observation), wanted_BTA, seeded())
        full, found = (
            policy.predict_action_chunk(observation, budget=budget, generator=seeded())
            for budget in (None, "auto")
        )
        chunks = [torch.from_numpy(one.chunk) for one in (found, full)]
        assert squared_distance(*chunks, scale_A).mean() <= margin * lost * (1 + 1e-4)
        used.append(found.budget.mean())
    assert used[0] >= used[1] > used[2]


def corrected_batch(dataset: Dataset, size: int) -> tuple[Policy, dict[str, Any], Tensor]:
    """A policy with an offset head, observations, and the actions that follow them."""
    policy = tiny.make_policy("klt", dataset, offset_layers=1)
    observation = tiny.batch(policy, dataset, size)
    return policy, observation, torch.from_numpy(observation["action"])


def test_corrected_chunks_err_no_more_than_the_margin_says(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not how far they are from the chunk of all tokens counts, but how much they err."""
    pretend_costs(monkeypatch, 1.0)
    policy, observation, wanted_BTA = corrected_batch(dataset, 64)
    scale_A = torch.tensor(policy.tokenizer.normalizer.scale, dtype=torch.float32)
    used = []
    for margin in (0.0, 0.05, 1e6):
        monkeypatch.setattr(threshold_calibration, "ERROR_MARGIN", margin)
        policy.calibrate(policy.read(observation), wanted_BTA, seeded())
        full, found = (
            policy.predict_action_chunk(observation, budget=budget, sampling=Sampling(0.0))
            for budget in (None, "auto")
        )
        of_all, of_auto = (
            float(((torch.from_numpy(one.chunk) - wanted_BTA) / scale_A).abs().mean())
            for one in (full, found)
        )
        assert of_auto <= of_all * (1 + margin) * (1 + 1e-4)
        used.append(found.budget.mean())
    assert used[0] >= used[1] >= used[2] == 1


def test_further_tokens_that_move_a_corrected_chunk_and_do_not_mend_it_are_left_out(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number of tokens is off by as much, each to another side."""
    pretend_costs(monkeypatch, 1.0)
    policy, observation, wanted_BTA = corrected_batch(dataset, 32)
    truth_BTA = policy.tokenizer.normalizer.normalize(wanted_BTA)

    def correct(context: object, chunk_BTA: Tensor, lengths_B: Tensor) -> Tensor:
        side_B = 1 - 2 * (lengths_B % 2)
        return truth_BTA + 0.1 * side_B[:, None, None]

    policy.token_predictor._correct = correct
    policy.calibrate(policy.read(observation), wanted_BTA, seeded())
    assert policy.auto is not None
    assert policy.auto.num_tokens[0] == 1
    found = policy.predict_action_chunk(observation, budget="auto", sampling=Sampling(0.0))
    assert found.budget.tolist() == [1] * 32


def test_distances_are_in_normalized_units() -> None:
    chunk, scale = torch.zeros(2, 3, 1), torch.tensor([2.0])
    assert squared_distance(chunk + 4, chunk, scale).tolist() == [4, 4]
