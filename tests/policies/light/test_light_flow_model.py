"""`light-flow`: what it refuses, its loss, further tasks and its artifact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import LightFlowConfig, Policy, policy_for_dataset
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.types import Sampling, Schedule, Tokens
from tests.policies import tiny

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def policy(dataset: Dataset) -> Policy:
    return tiny.make_flow_policy(dataset)


def test_what_only_tokens_have_is_refused(policy: Policy, dataset: Dataset) -> None:
    observation = tiny.batch(policy, dataset)
    with pytest.raises(ValueError, match="which has no schedules: leave the schedule out"):
        policy.predict_action_chunk(observation, schedule=Schedule((1, 2)))
    with pytest.raises(TypeError, match="light-flow policy has no tokens"):
        policy.logits(policy.read(observation), torch.zeros(3, 1), Schedule((1,)))
    with pytest.raises(ValueError, match="temperature is -1, expected 0 or more"):
        policy.predict_action_chunk(observation, sampling=Sampling(temperature=-1))


def test_another_number_of_actions_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", **{"action": np.zeros((9, 2)), "observation.state": np.eye(9)})
    other = oatkit.open_dataset(str(tmp_path))
    tokenizer = tiny.make_tokenizer("bin", dataset)
    with pytest.raises(ValueError, match="the tokenizer is for 3 action dimensions"):
        policy_for_dataset(LightFlowConfig(tiny.CONFIG), tokenizer, other)


def test_the_loss_is_of_normalized_actions(policy: Policy, dataset: Dataset) -> None:
    batch = tiny.batch(policy, dataset)
    read, actions = policy.read(batch), torch.from_numpy(batch["action"])
    tokens = Tokens.full(torch.zeros(3, 1, dtype=torch.int64))
    keys = torch.arange(3)
    trained = policy.loss(read, tokens, actions, SampleRandom(keys)).total
    measured = policy.flow_loss(read, actions, SampleRandom(keys))
    assert trained.item() == pytest.approx(measured.item()), "without dropout and crops"
    normal = policy.tokenizer.normalizer.normalize(actions)
    wanted = policy.net.flow_loss(policy.net.encode(read), normal, SampleRandom(keys))
    assert measured.item() == wanted.item()
    is_pad = torch.ones(actions.shape[:2], dtype=torch.bool)
    assert policy.flow_loss(read, actions, SampleRandom(keys), is_pad).item() == wanted.item()
    policy = tiny.make_flow_policy(dataset)
    policy.net.config = replace(policy.net.config, mask_padding=True)
    assert policy.flow_loss(read, actions, SampleRandom(keys), is_pad).item() == 0


def test_an_artifact_is_the_policy(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_flow_policy(dataset, cameras=("front",), history=1)
    policy.extras = {"note": 1}
    policy.save_pretrained(tmp_path)
    again = oatkit.load_policy(tmp_path)
    assert isinstance(again.model, LightFlowModel)
    assert (again.digest, again.to_json()) == (policy.digest, policy.to_json())
    assert again.net.config == policy.net.config
    observation = tiny.batch(policy, dataset)
    found = [p.predict_action_chunk(observation, sampling=GREEDY).chunk for p in (policy, again)]
    np.testing.assert_array_equal(*found)
    half = oatkit.load_policy(tmp_path, dtype="bfloat16")
    assert half.net.head.into.weight.dtype == torch.bfloat16
    rough = half.predict_action_chunk(observation, sampling=GREEDY).chunk
    scale = policy.tokenizer.normalizer.scale
    assert np.abs((rough - found[0]) / scale).max() < 0.1


def test_further_tasks(policy: Policy, dataset: Dataset) -> None:
    larger = policy.with_tasks(["fold the cloth"])
    assert larger.spec.tasks == (*tiny.TASKS, "fold the cloth")
    observation = tiny.batch(policy, dataset)
    np.testing.assert_array_equal(
        larger.predict_action_chunk(observation, sampling=GREEDY).chunk,
        policy.predict_action_chunk(observation, sampling=GREEDY).chunk,
    )
    assert "Policy(light-flow: " in repr(larger)
