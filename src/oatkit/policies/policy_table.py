"""The policies by name. A new policy is one file and one row: see `docs/adding_a_policy.md`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from oatkit.data import Dataset
from oatkit.errors import ArtifactError, unknown_name
from oatkit.nn.captured_call import KEPT_SIZES
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.weight_loading import WithoutWeights
from oatkit.policies.light.light_config import LightConfig, LightFlowConfig
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.observation.embodiment import Embodiment
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.policy import Policy
from oatkit.policies.policy_artifact import (
    OpenedPolicy,
    load_weights,
    read_policy,
    robot_folder,
    robots_of,
)
from oatkit.policies.policy_model import PolicyConfig, PolicyModel
from oatkit.policies.tokenizer_checks import require_same_actions
from oatkit.policies.vlm.vlm_config import OBJECTIVES, VlmConfig
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.storage.artifact import (
    UNTRAINED,
    config_file,
    local_folder,
    read_unchanged,
    require_config,
)
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Dtype, Head


@dataclass(frozen=True)
class PolicyKind:
    """A row of the table.

    Attributes:
        summary: What it is, in a few words.
        heads: Heads that are trained; the first of them acts.
        config: Makes a config of the default size, a frozen dataclass that has the name as `kind`.
        make: Makes an untrained model of a config, a tokenizer, what is observed and, by name, the
            `net` of another robot to share or None. One that needs a backbone takes `backbone`, a
            checkpoint, and the `dataset` by name too.
        read: Makes the model of an artifact, and of the network of another robot or None. The
            weights of a new network are loaded later.
        needs_backbone: Whether it is made of a vision-language checkpoint.
        history: Number of frames that it observes unless it is told otherwise.
    """

    summary: str
    heads: tuple[Head, ...]
    config: Callable[[], PolicyConfig]
    make: Callable[..., PolicyModel]
    read: Callable[[OpenedPolicy, Any], PolicyModel]
    needs_backbone: bool = False
    history: int = 2


POLICIES = {
    "light": PolicyKind(
        "a small transformer that reads states and images",
        LightModel.heads,
        LightConfig,
        LightModel.make,
        LightModel.read,
    ),
    "light-flow": PolicyKind(
        "the same small transformer with a flow head in place of tokens",
        LightFlowModel.heads,
        LightFlowConfig,
        LightFlowModel.make,
        LightFlowModel.read,
    ),
    **{
        name: PolicyKind(
            objective.summary,
            objective.heads,
            partial(VlmConfig, name),
            VlmModel.for_dataset,
            VlmModel.read,
            needs_backbone=True,
            history=1,
        )
        for name, objective in OBJECTIVES.items()
    },
}


def policy_kind(name: str) -> PolicyKind:
    """The policy with this name."""
    if name not in POLICIES:
        raise ValueError(unknown_name("policy", name, POLICIES))
    return POLICIES[name]


def policy_for_dataset(
    config: PolicyConfig,
    tokenizer: ActionTokenizer,
    dataset: Dataset,
    *,
    backbone: str | None = None,
    history: int | None = None,
    cameras: Sequence[str] = (),
    reads_state: bool = True,
    embodiment: Embodiment | None = None,
    net: Any = None,
) -> Policy:
    """An untrained policy for a dataset.

    Args:
        config: Config of a policy, such as `LightConfig()`, which names its kind.
        tokenizer: Tokenizer of the dataset's actions.
        dataset: What the policy is to be trained on.
        backbone: Vision-language checkpoint, folder or hub id, for a policy that needs one.
        history: Number of observed frames, the current one included; the kind's by default.
        cameras: Cameras to read.
        reads_state: Whether to read the state.
        embodiment: Place of the robot among several that share a network; None for a network of its
            own.
        net: The network of another of these robots; a new one by default.
    """
    kind = policy_kind(config.kind)
    if kind.needs_backbone and backbone is None:
        raise ValueError(f"{config.kind} needs a backbone: name its checkpoint")
    if backbone is not None and not kind.needs_backbone:
        raise ValueError(f"the {config.kind} policy has no backbone: name another policy")
    require_same_actions(tokenizer, dataset)
    spec = ObservationSpec.for_dataset(
        dataset,
        history=kind.history if history is None else history,
        cameras=cameras,
        reads_state=reads_state,
        embodiment=embodiment,
    )
    more = {"backbone": backbone, "dataset": dataset} if kind.needs_backbone else {}
    return Policy(kind.make(config, tokenizer, spec, net=net, **more), extras={UNTRAINED: True})


def use_cuda_graphs(policy: Policy, max_batch: int = 1) -> None:
    """Let a vision-language policy replay its Euler steps and stages as CUDA graphs.

    Every batch size, context length (in steps of 32 slots) and number of steps is captured when it
    first comes, which takes longer than a plain prediction. Tests compare it with the plain way on
    a CPU; it has not run on a GPU yet.

    Args:
        policy: A policy on CUDA.
        max_batch: Largest batch that it will act for. What is captured is kept for twice as many
            sizes, so that all batches fit with two lengths of context, and for 16 at least.
    """
    if not isinstance(policy.model, VlmModel):
        raise ValueError(f"CUDA graphs are for vision-language policies, not for {policy.kind}")
    if policy.device.type != "cuda":
        raise ValueError(f"CUDA graphs need a policy on CUDA, this one is on {policy.device}")
    policy.net.use_graphs(max(KEPT_SIZES, 2 * max_batch))


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
    path, place = robot_folder(local_folder(folder), embodiment), resolve_device(device)
    weights = None if dtype is None else getattr(torch, dtype)
    return read_unchanged(path, partial(_load, dtype=weights, device=place))


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
    load = partial(_load, device=resolve_device(device), net=first.net)
    others = (read_unchanged(path / name, load) for name in robots[1:])
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


def _load(
    path: Path, device: torch.device, dtype: torch.dtype | None = None, net: Any = None
) -> Policy:
    """The policy in a folder, around the network of another robot's if one is given."""
    kind = _kind_in(path)
    found = read_policy(path, has_weights=net is None)
    with WithoutWeights():
        model = kind.read(found, net)
    if net is None:
        load_weights(model.net, found, dtype, device)
    found.tokenizer.to(device)
    return Policy(model, found.auto, found.extras(model.settings()), found.execution)


def _kind_in(path: Path) -> PolicyKind:
    """The row of the policy in a folder."""
    require_config(path, "policy")
    try:
        config = json.loads(config_file(path).read_text())
        kind = config["kind"] if config.get("schema") == "oatkit/policy" else "light"
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{path} is no readable policy artifact ({error})") from error
    if kind not in POLICIES:
        raise ArtifactError(f"{path}: {unknown_name('policy kind', str(kind), POLICIES)}")
    return POLICIES[kind]
