"""Policies as training begins: new ones of a preset or a config, and those that continue others."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from oatkit.data import Dataset
from oatkit.jobs.tokenizer_training import DEFAULT_HORIZON
from oatkit.policies import (
    LightConfig,
    LightFlowConfig,
    Policy,
    VlmConfig,
    load_policy,
    policy_for_dataset,
)
from oatkit.policies.policy_model import PolicyConfig
from oatkit.policies.policy_table import policy_kind
from oatkit.policies.vlm.backbones.backbone_options import FREEZING
from oatkit.policies.vlm.vlm_config import STAGE, stage_flags
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.presets import policy_preset, vlm_preset
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_codec, make_config
from oatkit.train import TrainConfig

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class PolicyStart:
    """What a new policy is made of, beside its config and its tokenizer.

    Attributes:
        backbone: Vision-language checkpoint: folder or hub id.
        cameras: Cameras to read.
        reads_state: Whether to read the state.
        history: Number of observed frames, the current one included; the preset's if None.
        horizon: Number of actions in a chunk, where no tokenizer says it.
        held_out: Share of the episodes that is never trained on; the tokenizer's if None.
        split_seed: Seed of which episodes those are; the tokenizer's if None.
    """

    backbone: str | None = None
    cameras: tuple[str, ...] = ()
    reads_state: bool = True
    history: int | None = None
    horizon: int = DEFAULT_HORIZON
    held_out: float | None = None
    split_seed: int | None = None

    def split(self, extras: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of `Dataset.split`: what the tokenizer did not see, the policy does not see."""
        made = {"held_out": 0.1, "seed": 0} | dict(extras.get("split", {}))
        return {
            "fraction": made["held_out"] if self.held_out is None else self.held_out,
            "seed": made["seed"] if self.split_seed is None else self.split_seed,
        }

    def require_open(self) -> None:
        """Refuse what a policy to start from has decided already."""
        for name in ("backbone", "cameras", "reads_state", "history", "horizon"):
            if getattr(self, name) != getattr(PolicyStart, name):
                raise ValueError(f"the policy to start from has its own {name}: leave it out")


def policy_config(policy: str, preset: str = "small") -> Any:
    """A preset's config of the policy with this name; its own defaults where no preset has one."""
    config = policy_kind(policy).config()
    if isinstance(config, LightConfig):
        return policy_preset(preset).net
    if isinstance(config, LightFlowConfig):
        sizes = replace(policy_preset(preset).net, code_smoothing=0.0, offset_layers=0)
        return replace(config, sizes=sizes)
    if isinstance(config, VlmConfig):
        return replace(config, expert=vlm_preset(preset, policy).expert)
    return config


def policy_recipe(policy: str, preset: str = "small") -> TrainConfig:
    """How a preset trains the policy with this name: like the light one, or on a backbone."""
    if policy_kind(policy).needs_backbone:
        return vlm_preset(preset, policy).train
    found = policy_preset(preset)
    if policy == LightFlowConfig.kind and found.flow_steps is not None:
        return replace(found.train, steps=found.flow_steps)
    return found.train


def row_steps(policy: str, preset: str) -> int:
    """Training steps of a row of a table, which may be fewer than those of `policy_recipe`."""
    own = policy_preset(preset).row_steps if policy == LightConfig.kind else None
    return own or policy_recipe(policy, preset).steps


def continue_policy(
    init: Policy | Folder,
    dataset: Dataset,
    seed: int,
    changes: PolicyConfig | Mapping[str, Any] | str | None = None,
    preset: str = "small",
    note: Callable[[str], None] = lambda _: None,
) -> Callable[[], Policy]:
    """How to make the policy that starts from another one.

    What the policy is stays: tokenizer, observation, heads, adapters. How it was trained (see
    `STAGE`) is not inherited.

    Args:
        init: Policy to start from, or folder or hub id of one.
        dataset: What it is trained on.
        seed: Seed of the weights that are new.
        changes: Config of a vision-language policy that it becomes, the name of its objective, or
            the settings that change (those of `expert` and `backbone` as mappings); None to leave
            it as it is.
        preset: Size of a flow expert that it does not have yet.
        note: Function that is told what is not inherited, in one line.
    """

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
        changed = changed_policy(policy, changes, preset)
        left = _left_behind(policy, changed)
        if left:
            name = str(init) if isinstance(init, str | os.PathLike) else "the policy to start from"
            note(f"{name} was trained with {left}, which is not inherited: say so to train alike")
        return changed.with_tasks(dataset.tasks)

    return make


def changed_policy(
    policy: Policy, changes: PolicyConfig | Mapping[str, Any] | str | None, preset: str
) -> Policy:
    """A policy under another config; see `continue_policy`."""
    model = policy.model
    if not isinstance(model, VlmModel):
        if changes:
            raise ValueError(f"a {policy.kind} policy goes on as it is: leave its config out")
        return policy
    if isinstance(changes, VlmConfig):
        return policy.with_model(model.with_config(changes))
    if isinstance(changes, str):
        changes = {"objective": changes}
    assert changes is None or isinstance(changes, Mapping)
    changes, default, config = dict(changes or {}), VlmConfig(), model.net.config
    objective = changes.get("objective", config.objective)
    is_new = "flow" not in config.heads
    expert = vlm_preset(preset, objective).expert if is_new else config.expert
    usual = {name: getattr(default.backbone, name) for name in (*FREEZING, "dtype")}
    parts = {
        "endpoints": config.endpoints if objective == config.objective else None,
        "expert": replace(expert, **changes.get("expert", {})),
        "backbone": replace(config.backbone, **{**usual, **changes.get("backbone", {})}),
    }
    stage = {name: getattr(default, name) for name in STAGE}
    changed = replace(config, **{**stage, **changes, **parts})
    return policy if changed == config else policy.with_model(model.with_config(changed))


def _left_behind(before: Policy, after: Policy) -> str:
    """Flags that say how a policy was trained, and that the training of another one lacks."""
    if not (isinstance(before.model, VlmModel) and isinstance(after.model, VlmModel)):
        return ""
    now = stage_flags(after.net.config)
    return " ".join(f for name, f in stage_flags(before.net.config).items() if name not in now)


def _copied(policy: Policy) -> Policy:
    """The same policy, so that the one it was made of stays as it is.

    It goes through a folder, because a policy may hold sessions that cannot be copied.
    """
    with tempfile.TemporaryDirectory() as folder:
        return load_policy(policy.save_pretrained(folder))


def new_policy(
    config: PolicyConfig,
    tokenizer: ActionTokenizer,
    train_set: Dataset,
    start: PolicyStart,
    preset: str,
    seed: int,
) -> Callable[[], Policy]:
    """How to make an untrained policy."""
    kind = policy_kind(config.kind)
    observes: dict[str, Any] = {
        "history": start.history or (1 if kind.needs_backbone else policy_preset(preset).history),
        "cameras": start.cameras,
        "reads_state": start.reads_state,
    }

    def make() -> Policy:
        torch.manual_seed(seed)
        # opening the tokenizer once took random numbers here: a seed goes on giving the same policy
        make_codec(tokenizer.codec.config)
        return policy_for_dataset(config, tokenizer, train_set, backbone=start.backbone, **observes)

    return make


def open_tokenizer(
    tokenizer: ActionTokenizer | Folder | None,
    config: PolicyConfig,
    dataset: Dataset,
    start: PolicyStart,
) -> ActionTokenizer:
    """The tokenizer; one that only says the size of a chunk where there are no tokens."""
    if isinstance(tokenizer, ActionTokenizer):
        return tokenizer
    if tokenizer is not None:
        return load_tokenizer(tokenizer)
    if "tokens" in policy_kind(config.kind).heads:
        raise ValueError("name a tokenizer, or a policy to start from")
    train_set = dataset.split(**start.split({}))[0]
    sizes = {"horizon": start.horizon, "action_dim": dataset.represented_dim}
    return ActionTokenizer.for_dataset(make_config("bin", **sizes), train_set)
