"""The light policy as an artifact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.policies import Policy, policy_for_dataset
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.storage.artifact import change_config
from oatkit.tokenizers import KINDS
from oatkit.types import Schedule
from tests.policies import tiny
from tests.policies.tiny import seeded


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_artifact_is_the_same_policy(
    kind: str, policies: dict[str, Policy], dataset: Dataset, tmp_path: Path
) -> None:
    policy = policies[kind]
    policy.extras = {"note": "kept"}
    policy.save_pretrained(tmp_path / "p")
    back = oatkit.load_policy(tmp_path / "p")
    assert back.to_json() == policy.to_json()
    assert (back.extras, back.auto, back.schedule) == (policy.extras, policy.auto, policy.schedule)
    names = {"config.json", "model.safetensors", "README.md", "tokenizer"}
    assert {p.name for p in (tmp_path / "p").iterdir()} == names
    if kind != "fast":
        observation = tiny.batch(policy, dataset)
        a, b = (p.predict_action_chunk(observation, generator=seeded()) for p in (policy, back))
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.chunk, b.chunk)


def test_an_artifact_keeps_schedule_and_cameras(dataset: Dataset, tmp_path: Path) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    config = replace(tiny.CONFIG, endpoints=(2, 6))
    policy = policy_for_dataset(config, tokenizer, dataset, history=3, cameras=("front",))
    policy.auto = AutoThresholds((2,), (0.25,))
    policy.save_pretrained(tmp_path)
    back = oatkit.load_policy(tmp_path)
    assert back.schedule == Schedule((2, 6))
    assert back.spec.cameras == {"front": (tiny.HEIGHT, tiny.WIDTH)}
    assert (back.spec.history, back.spec.tasks) == (3, tiny.TASKS)
    assert back.auto == policy.auto
    assert "camera `front`, 20 x 24" in (tmp_path / "README.md").read_text()


def test_broken_artifacts(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("bin", dataset)
    policy.save_pretrained(tmp_path / "p")
    with pytest.raises(ArtifactError, match="holds oatkit/tokenizer, expected oatkit/policy"):
        oatkit.load_policy(tmp_path / "p/tokenizer")
    config = json.loads((tmp_path / "p/config.json").read_text())
    config["net"]["width"] = 32
    (tmp_path / "p/config.json").write_text(json.dumps(config))
    with pytest.raises(ArtifactError, match=r"model.safetensors is of another config"):
        oatkit.load_policy(tmp_path / "p")
    (tmp_path / "p/model.safetensors").write_bytes(b"short")
    with pytest.raises(ArtifactError, match="is no readable policy artifact"):
        oatkit.load_policy(tmp_path / "p")


def test_the_digest_changes_when_the_policy_would_act_otherwise(
    dataset: Dataset, tmp_path: Path
) -> None:
    policy = tiny.make_policy("oat", dataset)
    before = policy.digest
    policy.extras = {"note": "how it was trained"}
    policy.save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("another card")
    assert oatkit.load_policy(tmp_path).digest == before
    digests = {before}
    policy.auto = AutoThresholds((2,), (0.25,))
    digests.add(policy.digest)
    with torch.no_grad():
        policy.net.slots += 1
    digests.add(policy.digest)
    policy.tokenizer = tiny.make_tokenizer("klt", dataset)
    digests.add(policy.digest)
    assert len(digests) == 4


def test_thresholds_of_the_rule_that_decoded_after_every_stage(
    dataset: Dataset, tmp_path: Path
) -> None:
    """They are no longer used; the policy stays the same one until it is calibrated again."""
    policy = tiny.make_policy("oat", dataset)
    policy.save_pretrained(tmp_path)
    former = {"change": 0.1, "entropy_bits": 2.0}
    change_config(tmp_path, {"auto": former})
    opened = oatkit.load_policy(tmp_path)
    assert opened.auto is None
    assert opened.to_json()["auto"] == former
    assert opened.digest not in (policy.digest, "")
    observation = tiny.batch(policy, dataset, 8)
    with pytest.raises(ValueError, match="oatkit policy calibrate POLICY --data DATA` finds them"):
        opened.predict_action_chunk(observation, budget="auto")
    opened.calibrate(opened.read(observation), torch.from_numpy(observation["action"]))
    opened.save_pretrained(tmp_path)
    assert opened.auto is not None
    assert oatkit.load_policy(tmp_path).auto == opened.auto
