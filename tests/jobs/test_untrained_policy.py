"""Policies before training: where they come from, and that they can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.untrained_policy import (
    PolicyStart,
    continue_policy,
    new_policy,
    open_tokenizer,
    policy_config,
    policy_recipe,
)
from oatkit.policies.policy_table import POLICIES
from oatkit.presets import POLICY_PRESETS, VLM_PRESETS
from oatkit.storage.artifact import UNTRAINED
from tests.policies import tiny


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


def test_the_same_policy_is_made_again(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    config = policy_config("light", "tiny")
    start = PolicyStart()
    makers = [new_policy(config, tokenizer, dataset, start, "tiny", seed) for seed in (0, 1)]
    first, again, other = (make().net.state_dict() for make in (makers[0], makers[0], makers[1]))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_policy_of_other_sizes_cannot_be_continued(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("bin", dataset)
    policy.extras.pop(UNTRAINED)  # a policy that goes on training is not
    narrow = oatkit.open_dataset(dataset.path, action_dims=("0",), cache_dir=dataset.cache_dir)
    make = continue_policy(policy, narrow, 0)
    with pytest.raises(ValueError, match=r"is for 3 action dimensions, .* has 1"):
        make()
    policy.save_pretrained(tmp_path / "p")
    assert continue_policy(tmp_path / "p", dataset, 0)().to_json() == policy.to_json()


def test_what_the_tokenizer_did_not_see_the_policy_does_not_see() -> None:
    made = {"split": {"held_out": 0.3, "seed": 5}}
    assert PolicyStart().split(made) == {"fraction": 0.3, "seed": 5}
    assert PolicyStart(held_out=0.2).split(made) == {"fraction": 0.2, "seed": 5}
    assert PolicyStart(split_seed=7).split({}) == {"fraction": 0.1, "seed": 7}


def test_a_policy_to_start_from_has_decided_most() -> None:
    PolicyStart(held_out=0.2, split_seed=3).require_open()
    with pytest.raises(ValueError, match="has its own cameras: leave it out"):
        PolicyStart(cameras=("front",)).require_open()


def test_a_flow_without_tokens_needs_only_the_size_of_a_chunk(dataset: Dataset) -> None:
    tokenizer = open_tokenizer(
        None, policy_config("vlm-flow", "tiny"), dataset, PolicyStart(horizon=6)
    )
    assert (tokenizer.horizon, tokenizer.action_dim) == (6, tiny.ACTION_DIM)
    with pytest.raises(ValueError, match="name a tokenizer"):
        open_tokenizer(None, policy_config("vlm-tc", "tiny"), dataset, PolicyStart(horizon=6))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_a_config_and_a_recipe_in_every_preset(policy: str) -> None:
    presets = VLM_PRESETS if POLICIES[policy].needs_backbone else POLICY_PRESETS
    for preset in presets:
        assert policy_config(policy, preset)
        assert policy_recipe(policy, preset).steps > 0
