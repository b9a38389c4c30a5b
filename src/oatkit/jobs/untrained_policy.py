"""Policies as training begins: new ones of a preset or a config, and those that continue others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch

from oatkit.data import Dataset
from oatkit.policies import (
    LightConfig,
    LightPolicy,
    Policy,
    VlmConfig,
    VlmPolicy,
    load_policy,
)
from oatkit.presets import policy_preset, vlm_preset
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_codec, make_config
from oatkit.train import TrainConfig

Folder = str | os.PathLike[str]


def policy_config(policy: str, preset: str = "small") -> LightConfig | VlmConfig:
    """A preset's config of the policy with this name."""
    if policy == "light":
        return policy_preset(preset).net
    return VlmConfig(objective=policy, expert=vlm_preset(preset, policy).expert)  # type: ignore[arg-type]


def policy_recipe(policy: str, preset: str = "small") -> TrainConfig:
    """How a preset trains the policy with this name."""
    return policy_preset(preset).train if policy == "light" else vlm_preset(preset, policy).train


def continue_policy(init: Policy | Folder, dataset: Dataset, seed: int) -> Callable[[], Policy]:
    """How to make the policy that starts from another one."""

    def make() -> Policy:
        torch.manual_seed(seed)
        policy = load_policy(init) if isinstance(init, str | os.PathLike) else _copied(init)
        for name, has, wanted in (
            ("action", dataset.action_dim, policy.tokenizer.action_dim),
            ("state", dataset.state_dim, policy.spec.state_dim or dataset.state_dim),
        ):
            if has != wanted:
                raise ValueError(
                    f"{init} is for {wanted} {name} dimensions, {dataset.path} has {has}"
                )
        return policy.with_tasks(dataset.tasks)

    return make


def _copied(policy: Policy) -> Policy:
    """The same policy, so that the one it was made of stays as it is.

    It goes through a folder, because a policy may hold sessions that cannot be copied.
    """
    with tempfile.TemporaryDirectory() as folder:
        return load_policy(policy.save_pretrained(folder))


def new_policy(
    config: LightConfig | VlmConfig,
    backbone: str | None,
    tokenizer: ActionTokenizer,
    train_set: Dataset,
    observes: dict[str, Any],
    seed: int,
) -> Callable[[], Policy]:
    """How to make an untrained policy."""

    def make() -> Policy:
        torch.manual_seed(seed)
        # loading a tokenizer takes random numbers; so its folder and itself give the same policy
        make_codec(tokenizer.codec.config)
        if isinstance(config, LightConfig):
            if backbone is not None:
                raise ValueError("the light policy has no backbone: name another policy")
            return LightPolicy.for_dataset(config, tokenizer, train_set, **observes)
        if backbone is None:
            raise ValueError(f"{config.objective} needs a backbone: name its checkpoint")
        return VlmPolicy.for_dataset(config, backbone, tokenizer, train_set, **observes)

    return make


def open_tokenizer(
    tokenizer: ActionTokenizer | Folder | None,
    config: LightConfig | VlmConfig,
    dataset: Dataset,
    horizon: int,
    held_out: float | None,
    split_seed: int | None,
) -> ActionTokenizer:
    """The tokenizer; one that only says the size of a chunk where there are no tokens."""
    if isinstance(tokenizer, ActionTokenizer):
        return tokenizer
    if tokenizer is not None:
        return load_tokenizer(tokenizer)
    if isinstance(config, LightConfig) or "tokens" in config.heads:
        raise ValueError("name a tokenizer, or a policy to start from")
    train_set = dataset.split(**episode_split({}, held_out, split_seed))[0]
    sizes = {"horizon": horizon, "action_dim": dataset.action_dim}
    return ActionTokenizer.for_dataset(make_config("bin", **sizes), train_set)


def episode_split(
    extras: Mapping[str, Any], held_out: float | None, split_seed: int | None
) -> dict[str, Any]:
    """Arguments of `Dataset.split`: what the tokenizer did not see, the policy does not see."""
    made = {"held_out": 0.1, "seed": 0} | dict(extras.get("split", {}))
    return {
        "fraction": made["held_out"] if held_out is None else held_out,
        "seed": made["seed"] if split_seed is None else split_seed,
    }
