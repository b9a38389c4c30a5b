"""The artifact of a policy: what all kinds have alike, read but not yet made a policy.

config.json  model.safetensors  README.md   as in every artifact
tokenizer/                                  the tokenizer of the actions

A policy for several robots has one network and, for each robot, a policy around it:

config.json                                 the names of the robots
model.safetensors                           the weights, which all of them share
<robot>/config.json  README.md  tokenizer/  what is the robot's own
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from oatkit.errors import unknown_name
from oatkit.nn.weight_loading import place_weights
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.storage.artifact import (
    EMBODIMENTS,
    config_file,
    load_state,
    read_artifact,
    replacing,
    weights_folder,
    write_artifact,
)
from oatkit.tokenizers import ActionTokenizer, load_tokenizer

if TYPE_CHECKING:
    from oatkit.policies.policy import Policy

SCHEMA, VERSION = "oatkit/policy", 1
CALIBRATED_KEYS = ("auto", "execution")
"""Entries of `config.json` that are found on held-out episodes, and can be found again."""
COMMON_KEYS = ("schema", "version", "kind", "net", "observation", *CALIBRATED_KEYS)
"""Entries of `config.json` that policies of all kinds have."""
FLOAT32_PARTS = ("state",)
"""Names of the parts of a network that stay float32 whatever type its weights are opened in."""


@dataclass(frozen=True, eq=False)
class OpenedPolicy:
    """What an artifact holds.

    Attributes:
        path: Where the artifact lies.
        shared: Where its weights lie: there, or where those of several robots are.
        config: What `config.json` holds.
        state: Weights of the network by name.
        tokenizer: The tokenizer of the actions.
        spec: What the policy observes.
        auto: Thresholds of `budget="auto"`, if they were calibrated.
        execution: How many steps of a chunk are worth executing, if that was calibrated.
    """

    path: Path
    shared: Path
    config: dict[str, Any]
    state: dict[str, Tensor]
    tokenizer: ActionTokenizer
    spec: ObservationSpec
    auto: AutoThresholds | None
    execution: AutoExecution | None

    def extras(self, own_keys: Collection[str]) -> dict[str, Any]:
        """Entries of `config.json` that neither all kinds have nor, by `own_keys`, this one."""
        known = (*COMMON_KEYS, *own_keys)
        found = {key: value for key, value in self.config.items() if key not in known}
        if self.auto is None and self.config["auto"] is not None:
            found["auto"] = self.config["auto"]  # of an earlier rule; the digest stays the same
        return found


def read_policy(path: Path, *, has_weights: bool = True) -> OpenedPolicy:
    """Read an artifact.

    Args:
        path: Where it lies.
        has_weights: Whether to read the weights, which a network that is there already needs not.
    """
    config, state = read_artifact(path, "policy", VERSION, has_weights=has_weights)
    execution = config.get("execution")
    return OpenedPolicy(
        path=path,
        shared=weights_folder(path),
        config=config,
        state=state,
        tokenizer=load_tokenizer(path / "tokenizer"),
        spec=ObservationSpec.from_json(config["observation"]),
        auto=AutoThresholds.from_json(config["auto"]),
        execution=None if execution is None else AutoExecution.from_json(execution),
    )


def load_weights(
    net: nn.Module, opened: OpenedPolicy, dtype: torch.dtype | None, device: torch.device
) -> None:
    """Give a network the weights of its artifact, and move it to a device.

    Args:
        net: Network, made in `WithoutWeights` or not.
        opened: Artifact, whose weights are taken out.
        dtype: Type of the weights, but for those of `FLOAT32_PARTS`; as trained if None.
        device: Where the network runs.
    """
    place = partial(place_weights, net, dtype=dtype, device=device, float32=FLOAT32_PARTS)
    load_state(place, opened.state, opened.path)


def write_policies(folder: str | os.PathLike[str], policies: Mapping[str, Policy]) -> Path:
    """Write the artifact of a policy for several robots, all or nothing; returns its folder.

    Args:
        folder: Where to write it.
        policies: Policy of each robot, all around one network.
    """
    path, first = Path(folder), next(iter(policies.values()))
    config = {"schema": SCHEMA, "version": VERSION, "kind": first.kind}
    lines = [
        f"- `{name}`: {policy.tokenizer.horizon} x {policy.tokenizer.action_dim} actions"
        for name, policy in policies.items()
    ]
    title = f"# {first.kind} policy for several robots"
    opening = 'Open one with `oatkit.load_policy("this folder or hub id", embodiment="...")`.'
    with replacing(path) as aside:
        for name, policy in policies.items():
            policy.tokenizer.save_pretrained(aside / name / "tokenizer")
            write_artifact(aside / name, policy.to_json(), None, policy.model_card())
        first.write_files(aside)
        card = "\n".join([title, "", opening, "", *lines, ""])
        config = {**config, EMBODIMENTS: list(policies)}
        write_artifact(aside, config, first.net.state_dict(), card)
    return path


def robots_of(path: Path) -> tuple[str, ...]:
    """The names of the robots of a policy for several; none for a policy of one."""
    try:
        config = json.loads(config_file(path).read_text())
        return tuple(config.get(EMBODIMENTS, ()))
    except (OSError, ValueError, AttributeError):  # whoever reads it says what is wrong
        return ()


def robot_folder(path: Path, embodiment: str | None) -> Path:
    """The folder of a robot's policy.

    Args:
        path: Folder of a policy, perhaps of one for several robots.
        embodiment: Name of the robot; None where the policy is for one alone.
    """
    robots = robots_of(path)
    if embodiment is None:
        if robots:
            raise ValueError(
                f"{path} is a policy for several robots, {', '.join(robots)}: name one with "
                f"embodiment=, or as the folder {path / robots[0]}"
            )
        return path
    if robots:
        if embodiment not in robots:
            raise ValueError(unknown_name("embodiment", embodiment, robots))
        return path / embodiment
    found = read_policy(path, has_weights=False).spec.embodiment
    if found is None or found.name != embodiment:
        own = "one robot without a name" if found is None else f"{found.name!r}"
        raise ValueError(f"{path} is a policy for {own}, not for {embodiment!r}")
    return path
