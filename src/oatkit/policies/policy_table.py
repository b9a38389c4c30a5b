"""The policies by name. A new policy is one file and one row: see `docs/adding_a_policy.md`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from oatkit.errors import ArtifactError, unknown_name
from oatkit.nn.device import Device, resolve_device
from oatkit.policies.light.light_config import LightConfig, LightFlowConfig
from oatkit.policies.light.light_flow_policy import LightFlowPolicy
from oatkit.policies.light.light_policy import LightPolicy
from oatkit.policies.policy import Policy, PolicyConfig
from oatkit.policies.policy_artifact import robot_folder, robots_of
from oatkit.policies.vlm.vlm_config import OBJECTIVES, VlmConfig
from oatkit.policies.vlm.vlm_policy import VlmPolicy
from oatkit.storage.artifact import config_file, local_folder, read_unchanged, require_config
from oatkit.types import Decoding, Dtype, Head


@dataclass(frozen=True)
class PolicyKind:
    """A row of the table.

    Attributes:
        summary: What it is, in a few words.
        heads: Heads that are trained; the first of them acts.
        config: Makes a config of the default size, a frozen dataclass that has the name as `kind`.
        for_dataset: Makes an untrained policy of a config, a backbone where it needs one, a
            tokenizer, a dataset, and by name `history`, `cameras` and `reads_state`. One that can
            be trained on a mixture of robots takes `embodiment` and the `net` of another robot too.
        from_pretrained: Opens an artifact; takes `dtype` and `device` by name, as torch has them,
            and the `net` of another robot.
        needs_backbone: Whether it is made of a vision-language checkpoint.
    """

    summary: str
    heads: tuple[Head, ...]
    config: Callable[[], PolicyConfig]
    for_dataset: Callable[..., Policy]
    from_pretrained: Callable[..., Policy]
    needs_backbone: bool = False


POLICIES = {
    "light": PolicyKind(
        "a small transformer that reads states and images",
        LightPolicy.heads,
        LightConfig,
        LightPolicy.for_dataset,
        LightPolicy.from_pretrained,
    ),
    "light-flow": PolicyKind(
        "the same small transformer with a flow head in place of tokens",
        LightFlowPolicy.heads,
        LightFlowConfig,
        LightFlowPolicy.for_dataset,
        LightFlowPolicy.from_pretrained,
    ),
    **{
        name: PolicyKind(
            objective.summary,
            objective.heads,
            partial(VlmConfig, name),
            VlmPolicy.for_dataset,
            VlmPolicy.from_pretrained,
            needs_backbone=True,
        )
        for name, objective in OBJECTIVES.items()
    },
}


def policy_kind(name: str) -> PolicyKind:
    """The policy with this name."""
    if name not in POLICIES:
        raise ValueError(unknown_name("policy", name, POLICIES))
    return POLICIES[name]


def choose_head(policy: Policy, head: Head | None) -> None:
    """Let a policy act by one of its heads; by the one it acts by already where None is named."""
    if head is None:
        return
    if head not in policy.heads:
        raise ValueError(f"{policy.kind} has no head {head!r}, only {list(policy.heads)}")
    policy.head = head


def choose_decoder(policy: Policy, head: Head | None, decoding: Decoding | None) -> Policy:
    """The same policy, that acts by a head and, on `fast`, decodes strictly or not; None leaves
    either as it is."""
    choose_head(policy, head)
    policy.tokenizer.choose_decoding(decoding)
    return policy


def use_cuda_graphs(policy: Policy) -> None:
    """Let a vision-language policy replay its Euler steps and stages as CUDA graphs.

    Every batch size, context length (in steps of 32 slots) and number of steps is captured when it
    first comes, which takes longer than a plain prediction. Tests compare it with the plain way on
    a CPU; it has not run on a GPU yet.
    """
    if not isinstance(policy, VlmPolicy):
        raise ValueError(f"CUDA graphs are for vision-language policies, not for {policy.kind}")
    if policy.device.type != "cuda":
        raise ValueError(f"CUDA graphs need a policy on CUDA, this one is on {policy.device}")
    policy.net.use_graphs()


def load_policy(
    folder: str | os.PathLike[str],
    *,
    embodiment: str | None = None,
    dtype: Dtype | None = None,
    device: Device = "cpu",
) -> Policy:
    """Open a trained policy from a folder or, by its id, from the Hugging Face hub.

    Args:
        folder: Folder, or id on the Hugging Face hub.
        embodiment: Robot to act for, where the policy is for several; its folder in that of the
            policy means the same.
        dtype: Type of its weights, and what it computes in: "float32", "bfloat16" or "float16"; as
            trained by default. States, noise and the sums of Euler steps, logits and the decoder of
            the tokens stay float32.
        device: Where it runs: "cpu", "cuda", "cuda:1", "mps" or "auto".
    """
    if dtype not in (None, *get_args(Dtype)):
        raise ValueError(unknown_name("dtype", str(dtype), get_args(Dtype)))
    how = {"dtype": dtype and getattr(torch, dtype), "device": resolve_device(device)}
    path = robot_folder(local_folder(folder), embodiment)
    return read_unchanged(path, partial(_load, how=how))


def load_policies(
    folder: str | os.PathLike[str], *, dtype: Dtype | None = None, device: Device = "cpu"
) -> dict[str, Policy]:
    """Open a policy for several robots: one policy for each, all around one network.

    Args:
        folder: Folder, or id on the Hugging Face hub.
        dtype: Type of its weights; see `load_policy`.
        device: Where it runs.
    """
    path = local_folder(folder)
    robots = robots_of(path)
    if not robots:
        raise ValueError(f"{folder} is not a policy for several robots: open it with load_policy")
    first = load_policy(path / robots[0], dtype=dtype, device=device)
    how = {"device": resolve_device(device), "net": first.net}
    others = (read_unchanged(path / name, partial(_load, how=how)) for name in robots[1:])
    return dict(zip(robots, (first, *others), strict=True))


def open_policy(
    policy: Policy | str | os.PathLike[str], device: Device = "auto", dtype: Dtype | None = None
) -> Policy:
    """A policy to act with: opened on a device, or the one that is given.

    Args:
        policy: Policy, or folder or hub id of one.
        device: Where it runs; a policy that is given stays where it is, unless a device is named.
        dtype: Type of its weights; a policy that is given has its own.
    """
    if isinstance(policy, str | os.PathLike):
        return load_policy(policy, dtype=dtype, device=device)
    if dtype is not None:
        raise ValueError(f"the policy is open already: open it with load_policy(dtype={dtype!r})")
    return policy if device == "auto" else policy.to(resolve_device(device))


def _load(path: Path, how: Mapping[str, Any]) -> Policy:
    require_config(path, "policy")
    try:
        config = json.loads(config_file(path).read_text())
        kind = config["kind"] if config.get("schema") == "oatkit/policy" else "light"
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{path} is no readable policy artifact ({error})") from error
    if kind not in POLICIES:
        raise ArtifactError(f"{path}: {unknown_name('policy kind', str(kind), POLICIES)}")
    return POLICIES[kind].from_pretrained(path, **how)
