"""Measurements of policies against closed forms and slow loops."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.measure import policy_metrics
from oatkit.measure.policy_metrics import (
    _variance_ratio,
    measure_policy,
    observations_to_measure,
)
from oatkit.types import Sampling
from tests.policies import tiny


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    path = tiny.write_dataset(folder / "npz", num_episodes=4)
    return oatkit.open_dataset(path, cache_dir=folder / "cache")


def test_a_dimension_that_never_moves_has_no_ratio_of_variances() -> None:
    wanted_BTA = torch.stack([torch.arange(12.0).view(3, 4), torch.ones(3, 4)], dim=-1)
    ratio, constant = _variance_ratio(2 * wanted_BTA, wanted_BTA)
    assert ratio == pytest.approx(4.0)
    assert constant is None
    assert _variance_ratio(torch.full_like(wanted_BTA, math.nan), wanted_BTA) == ()


def test_observations_are_spread_and_read_in_parts(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny.make_policy("oat", dataset)
    at_once = observations_to_measure(policy, dataset, 7)
    monkeypatch.setattr(policy_metrics, "READ_AT_ONCE", 2)
    in_parts = observations_to_measure(policy, dataset, 7)
    for one, other in zip(at_once[0].tensors(), in_parts[0].tensors(), strict=True):
        assert torch.equal(one, other)
    actions_BTA, is_pad_BT = at_once[1:]
    assert actions_BTA.shape == (7, tiny.HORIZON, tiny.ACTION_DIM)
    np.testing.assert_array_equal(actions_BTA[0, 0], dataset[0].actions[0])
    assert is_pad_BT.sum(axis=1)[-1] == tiny.HORIZON - 1


def test_budgets_are_prefixes_of_the_same_samples(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat", dataset)
    found = measure_policy(policy, dataset, path="p", split="val", sampling=Sampling(seed=3))
    assert (found.path, found.split, found.num_chunks) == ("p", "val", dataset.num_frames)
    assert [b.budget for b in found.budgets] == list(policy.budgets)
    assert [b.tokens for b in found.budgets] == list(policy.budgets)
    assert [b.calls for b in found.budgets] == [policy.schedule.calls_for(k) for k in (1, 2, 4, 6)]
    assert found.auto is None
    assert found.invalid == 0
    assert len(found.variance) == tiny.ACTION_DIM
    wanted_BTA = observations_to_measure(policy, dataset, 10**6)[1]
    true = policy.tokenizer.encode(wanted_BTA)
    for b in found.budgets:
        assert b.mse is not None
        error_BTA = policy.tokenizer.decode(true, budget=b.budget) - wanted_BTA
        assert b.tokenizer_mse == pytest.approx(float(error_BTA.double().square().mean()))
    assert found == measure_policy(
        policy, dataset, path="p", split="val", sampling=Sampling(seed=3)
    )


def test_thresholds_are_measured_where_there_are_some(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    observations, actions_BTA, _ = observations_to_measure(policy, dataset, 32)
    policy.calibrate(observations, actions_BTA, torch.Generator().manual_seed(0))
    found = measure_policy(policy, dataset).auto
    assert found is not None
    assert found.budget == "auto"
    assert 1 <= found.tokens <= policy.tokenizer.max_tokens


def test_sequences_that_do_not_decode_have_no_error(dataset: Dataset) -> None:
    found = measure_policy(tiny.make_policy("fast", dataset), dataset)
    (only,) = found.budgets
    assert found.invalid == 1, "an untrained policy does not hit 24 coefficients"
    assert (only.mse, only.mae, found.variance) == (None, (), ())
    assert only.tokenizer_mse > 0


def test_tokens_of_a_folder_are_measured_alike(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("bin", dataset)
    policy.save_pretrained(tmp_path / "policy")
    loaded = oatkit.load_policy(tmp_path / "policy")
    assert measure_policy(loaded, dataset) == measure_policy(policy, dataset)
