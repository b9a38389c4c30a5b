"""The artifact of a policy: what all kinds write and read alike.

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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.errors import unknown_name
from oatkit.nn.weight_loading import place_weights
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.policy import Policy, SharingPolicy
from oatkit.storage.artifact import (
    EMBODIMENTS,
    config_file,
    load_state,
    local_folder,
    read_artifact,
    replacing,
    weights_folder,
    write_artifact,
)
from oatkit.storage.digest import digest, settings_part, tensor_parts
from oatkit.tokenizers import ActionTokenizer, load_tokenizer

SCHEMA, VERSION = "oatkit/policy", 1
CPU = torch.device("cpu")
CALIBRATED_KEYS = ("auto", "execution")
"""Entries of `config.json` that are found on held-out episodes, and can be found again."""
COMMON_KEYS = ("schema", "version", "kind", "net", "observation", *CALIBRATED_KEYS)
"""Entries of `config.json` that policies of all kinds have."""


@dataclass(frozen=True, eq=False)
class OpenedPolicy:
    """What an artifact holds, read but not yet made a policy.

    Attributes:
        path: Where the artifact lies.
        shared: Where its weights lie: there, or where those of several robots are.
        config: What `config.json` holds.
        state: Weights of the network by name.
        tokenizer: The tokenizer of the actions.
        spec: What the policy observes.
        auto: Thresholds of `budget="auto"`, if they were calibrated.
        execution: How many steps of a chunk are worth executing, if that was calibrated.
        extras: Entries of `config.json` that the kind does not know.
    """

    path: Path
    shared: Path
    config: dict[str, Any]
    state: dict[str, Tensor]
    tokenizer: ActionTokenizer
    spec: ObservationSpec
    auto: AutoThresholds | None
    execution: AutoExecution | None
    extras: dict[str, Any]


def read_policy(
    folder: str | os.PathLike[str], own_keys: Collection[str] = (), *, has_weights: bool = True
) -> OpenedPolicy:
    """Read an artifact from a folder or, by its id, from the Hugging Face hub.

    Args:
        folder: Folder or hub id.
        own_keys: Entries of `config.json` that only this kind has.
        has_weights: Whether to read the weights, which a network that is there already needs not.
    """
    path = local_folder(folder)
    config, state = read_artifact(path, "policy", VERSION, has_weights=has_weights)
    auto, execution = AutoThresholds.from_json(config["auto"]), config.get("execution")
    extras = {k: v for k, v in config.items() if k not in (*COMMON_KEYS, *own_keys)}
    if auto is None and config["auto"] is not None:  # of an earlier rule; the digest stays the same
        extras["auto"] = config["auto"]
    return OpenedPolicy(
        path=path,
        shared=weights_folder(path),
        config=config,
        state=state,
        tokenizer=load_tokenizer(path / "tokenizer"),
        spec=ObservationSpec.from_json(config["observation"]),
        auto=auto,
        execution=None if execution is None else AutoExecution.from_json(execution),
        extras=extras,
    )


def load_weights(
    net: nn.Module,
    opened: OpenedPolicy,
    dtype: torch.dtype | None = None,
    device: torch.device = CPU,
    *,
    float32: Collection[str] = (),
) -> None:
    """Give a network the weights of its artifact, and move it and the tokenizer to a device.

    Args:
        net: Network, made in `WithoutWeights` or not.
        opened: Artifact, whose weights are taken out.
        dtype: Type of the weights; as trained by default. The tokenizer stays float32.
        device: Where both run.
        float32: Names of the parts of the network that stay float32 whatever `dtype` says.
    """
    place = partial(place_weights, net, dtype=dtype, device=device, float32=float32)
    load_state(place, opened.state, opened.path)
    opened.tokenizer.to(device)


def write_policy(
    folder: str | os.PathLike[str],
    policy: Policy,
    config: dict[str, Any],
    card: str,
    write_more: Callable[[Path], None] | None = None,
) -> Path:
    """Write an artifact, all or nothing; returns its folder.

    Args:
        folder: Where to write it.
        policy: The policy, for its weights and its tokenizer.
        config: What `config.json` holds.
        card: The model card.
        write_more: Writes what else the kind needs into a folder.
    """
    path = Path(folder)
    with replacing(path) as aside:
        policy.tokenizer.save_pretrained(aside / "tokenizer")
        if write_more is not None:
            write_more(aside)
        write_artifact(aside, config, policy.net.state_dict(), card)
    return path


def write_policies(folder: str | os.PathLike[str], policies: Mapping[str, SharingPolicy]) -> Path:
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
            own, card, write_more = policy.written()
            policy.tokenizer.save_pretrained(aside / name / "tokenizer")
            write_artifact(aside / name, own, None, card)
        if write_more is not None:
            write_more(aside)
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


def policy_digest(policy: Policy) -> str:
    """Hash of weights, network config and tokenizer, which changes when any of them does."""
    config = policy.to_json()
    facts = {key: config[key] for key in ("net", "observation", "auto")}
    if policy.execution is not None:  # policies from before it keep their digest
        facts["execution"] = config["execution"]
    return digest(
        policy.tokenizer.digest.encode(),
        settings_part(facts),
        *tensor_parts(policy.net.state_dict()),
    )


def model_card(
    title: str, observes: str, tokenizer: ActionTokenizer, *, tags: str, call: str
) -> str:
    """The artifact's README.md.

    Args:
        title: Heading.
        observes: What the policy observes, in words.
        tokenizer: The tokenizer of the actions.
        tags: Further tags for the hub.
        call: Arguments of `predict_action_chunk` in the example.
    """
    lines = [
        "---",
        "library_name: oatkit",
        f"tags: [{tags}]",
        "---",
        f"# {title}",
        "",
        f"Observes {observes}. Gives chunks of {tokenizer.horizon} x {tokenizer.action_dim} "
        "actions.",
        "",
        "```python",
        "import oatkit",
        'policy = oatkit.load_policy("this folder or hub id")',
        "policy.reset()",
        f"chunk = policy.predict_action_chunk({call}).chunk",
        "```",
    ]
    return "\n".join(lines) + "\n"
