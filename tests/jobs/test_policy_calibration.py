"""Calibrating a trained policy again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.policy_calibration import calibrate_policy
from oatkit.policies.policy_artifact import CALIBRATED_KEYS
from tests.policies import tiny


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    path = tiny.write_dataset(tmp_path / "data")
    return oatkit.open_dataset(path, cache_dir=tmp_path / "cache")


def test_only_what_is_calibrated_changes(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("klt", dataset)
    policy.extras = {"split": {"held_out": 0.2, "seed": 0}}
    folder = policy.save_pretrained(tmp_path / "policy")
    before = json.loads((folder / "config.json").read_text())
    weights = (folder / "model.safetensors").read_bytes()
    calibrate_policy(policy, folder, dataset)
    found = oatkit.load_policy(folder)
    assert found.auto == policy.auto
    assert found.auto is not None
    assert found.execution == policy.execution
    assert found.execution is not None
    after = json.loads((folder / "config.json").read_text())
    assert {key for key in after if after[key] != before.get(key)} <= set(CALIBRATED_KEYS)
    assert (folder / "model.safetensors").read_bytes() == weights


def test_what_cannot_be_calibrated(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("klt", dataset)
    with pytest.raises(ValueError, match="me/policy is no folder of this machine"):
        calibrate_policy(policy, "me/policy", dataset)
    folder = policy.save_pretrained(tmp_path / "policy")
    with pytest.raises(ValueError, match="does not say how its data were split: use --split all"):
        calibrate_policy(policy, folder, dataset)
    calibrate_policy(policy, folder, dataset, split="all")
    assert policy.auto is not None
