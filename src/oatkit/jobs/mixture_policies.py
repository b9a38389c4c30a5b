"""Untrained policies for the robots of a mixture: one network, and a policy around it for each.

What the network reads is as wide as the widest robot needs it: see
`oatkit.policies.observation.embodiment`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from oatkit.data.mixture import Mixture
from oatkit.errors import ArtifactError, unknown_name
from oatkit.jobs.untrained_policy import Folder, PolicyStart
from oatkit.policies import Policy, policy_for_dataset
from oatkit.policies.observation.embodiment import Embodiment, named_instruction
from oatkit.policies.policy_model import PolicyConfig
from oatkit.policies.policy_table import policy_kind
from oatkit.presets import policy_preset
from oatkit.storage.artifact import CONFIG
from oatkit.storage.digest import digest, tensor_parts
from oatkit.tokenizers import ActionTokenizer, load_tokenizer, make_codec, make_config
from oatkit.tokenizers.adaptation import embodied

Cameras = Sequence[str] | Mapping[str, Sequence[str]]
"""Cameras to read: those of each robot by its name, or names of which each robot reads its own."""
TAKEN = ("tokenizer", "backbone", "checkpoints")
"""Folders of an artifact, which no robot may be called."""


def new_policies(
    config: PolicyConfig,
    tokenizers: Mapping[str, ActionTokenizer],
    train_set: Mixture,
    start: PolicyStart,
    cameras: Cameras,
    preset: str,
    seed: int,
) -> dict[str, Policy]:
    """Untrained policies around one network.

    Args:
        config: Config of a policy.
        tokenizers: Tokenizer of each robot, all of one codec.
        train_set: Episodes to train on.
        start: What they are made of beside that.
        cameras: Cameras to read.
        preset: Size and training recipe.
        seed: Seed of the weights.
    """
    kind = policy_kind(config.kind)
    if kind.needs_backbone != (start.backbone is not None):
        what = "needs a backbone: name its checkpoint" if kind.needs_backbone else "has no backbone"
        raise ValueError(f"{config.kind} {what}")
    torch.manual_seed(seed)
    own_cameras = cameras_of_robots(train_set, cameras)
    places = robot_places(train_set, tokenizers, own_cameras, start.reads_state)
    history = 1 if kind.needs_backbone else policy_preset(preset).history
    policies: dict[str, Policy] = {}
    net = None
    for member in train_set.members:
        policy = policy_for_dataset(
            config,
            tokenizers[member.name],
            member.dataset,
            backbone=start.backbone,
            history=start.history or history,
            cameras=own_cameras[member.name],
            reads_state=start.reads_state and member.dataset.state is not None,
            embodiment=places[member.name],
            net=net,
        )
        policies[member.name], net = policy, policy.net
    return policies


def cameras_of_robots(mixture: Mixture, cameras: Cameras) -> dict[str, tuple[str, ...]]:
    """The cameras that each robot reads, in order."""
    if isinstance(cameras, Mapping):
        for name in cameras:
            if name not in mixture.names:
                raise ValueError(unknown_name("embodiment", name, mixture.names))
        return {name: tuple(cameras.get(name, ())) for name in mixture.names}
    known = sorted({camera for member in mixture.members for camera in member.dataset.cameras})
    for camera in cameras:
        if camera not in known:
            raise ValueError(unknown_name("camera", camera, known))
    return {
        member.name: tuple(camera for camera in cameras if camera in member.dataset.cameras)
        for member in mixture.members
    }


def robot_places(
    mixture: Mixture,
    tokenizers: Mapping[str, ActionTokenizer],
    cameras: Mapping[str, Sequence[str]],
    reads_state: bool,
) -> dict[str, Embodiment]:
    """The place of each robot in what the network reads and gives."""
    sizes: dict[int, tuple[int, int]] = {}
    tasks: list[str] = []
    for member in mixture.members:
        for number, camera in enumerate(cameras[member.name]):
            if camera not in member.dataset.cameras:
                raise ValueError(unknown_name("camera", camera, member.dataset.cameras))
            found = member.dataset.cameras[camera]
            sizes.setdefault(number, (found.height, found.width))
        tasks += [named_instruction(member.name, t) for t in member.dataset.tasks or ("",)]
    config = next(iter(tokenizers.values())).codec.config
    state_dims = [member.dataset.state_dim for member in mixture.members]
    return {
        name: Embodiment(
            name=name,
            state_dim=max(state_dims) if reads_state else 0,
            camera_sizes=tuple(sizes[number] for number in range(len(sizes))),
            tasks=tuple(tasks),
            chunk_shape=(config.horizon, config.action_dim),
        )
        for name in mixture.names
    }


def open_tokenizers(
    tokenizers: Mapping[str, ActionTokenizer | Folder] | Folder | None,
    config: PolicyConfig,
    mixture: Mixture,
    start: PolicyStart,
) -> dict[str, ActionTokenizer]:
    """The tokenizer of each robot, all of one codec.

    Args:
        tokenizers: Tokenizers by the names of the robots, or the folder that `oatkit tokenizer
            train` wrote for a mixture; None for a policy without tokens.
        config: Config of the policy.
        mixture: Episodes of the robots, all of them.
        start: What the policy is made of, with the horizon where there are no tokens.
    """
    for name in mixture.names:
        if name in TAKEN or Path(name).name != name:
            raise ValueError(f"a robot cannot be called {name!r}: name it otherwise")
    if tokenizers is None:
        return _sizes_alone(config, mixture, start)
    if isinstance(tokenizers, str | os.PathLike):
        folder = Path(tokenizers)
        known = sorted(file.parent.name for file in folder.glob(f"*/{CONFIG}"))
        for name in mixture.names:
            if name not in known:
                raise ArtifactError(
                    f"{folder} has no tokenizer of {name!r}, only of {', '.join(known) or 'none'}: "
                    "train one on the mixture, or add the robot with `oatkit tokenizer adapt`"
                )
        tokenizers = {name: folder / name for name in mixture.names}
    missing = [name for name in mixture.names if name not in tokenizers]
    if missing:
        raise ValueError(f"there is no tokenizer of {missing[0]!r}, only of {list(tokenizers)}")
    given = {name: tokenizers[name] for name in mixture.names}
    opened = {
        name: one if isinstance(one, ActionTokenizer) else load_tokenizer(one)
        for name, one in given.items()
    }
    _require_one_codec(opened)
    return opened


def _sizes_alone(
    config: PolicyConfig, mixture: Mixture, start: PolicyStart
) -> dict[str, ActionTokenizer]:
    """Tokenizers that only say the size of chunks and normalize them."""
    if "tokens" in policy_kind(config.kind).heads:
        raise ValueError("name the folder of the mixture's tokenizers")
    sizes = {"horizon": start.horizon, "action_dim": mixture.represented_dim}
    codec = make_codec(make_config("bin", **sizes))
    split = start.split({})
    train_set = mixture.split(split["fraction"], seed=split["seed"])[0]
    return {
        member.name: embodied(ActionTokenizer, codec, member.dataset, "min_max", start.horizon)
        for member in train_set.members
    }


def _require_one_codec(tokenizers: Mapping[str, ActionTokenizer]) -> None:
    """Raise unless all tokenizers have one vocabulary and the same weights."""
    found = {name: _codec_digest(tokenizer) for name, tokenizer in tokenizers.items()}
    first = next(iter(found))
    for name, own in found.items():
        if own != found[first]:
            raise ValueError(
                f"the tokenizers of {first!r} and {name!r} have different codecs: train one on the "
                "mixture"
            )


def _codec_digest(tokenizer: ActionTokenizer) -> str:
    config = tokenizer.codec.config
    if getattr(config, "embodiment", None) is not None:
        config = replace(config, embodiment=None)
    return digest(repr(config).encode(), *tensor_parts(tokenizer.codec.state_dict()))
