"""The artifact of a policy: what all kinds write and read alike.

config.json  model.safetensors  README.md   as in every artifact
tokenizer/                                  the tokenizer of the actions
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from oatkit.nn.weight_loading import place_weights
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.policy import Policy
from oatkit.storage.artifact import (
    load_state,
    local_folder,
    read_artifact,
    replacing,
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
        config: What `config.json` holds.
        state: Weights of the network by name.
        tokenizer: The tokenizer of the actions.
        spec: What the policy observes.
        auto: Thresholds of `budget="auto"`, if they were calibrated.
        execution: How many steps of a chunk are worth executing, if that was calibrated.
        extras: Entries of `config.json` that the kind does not know.
    """

    path: Path
    config: dict[str, Any]
    state: dict[str, Tensor]
    tokenizer: ActionTokenizer
    spec: ObservationSpec
    auto: AutoThresholds | None
    execution: AutoExecution | None
    extras: dict[str, Any]


def read_policy(folder: str | os.PathLike[str], own_keys: Collection[str] = ()) -> OpenedPolicy:
    """Read an artifact from a folder or, by its id, from the Hugging Face hub.

    Args:
        folder: Folder or hub id.
        own_keys: Entries of `config.json` that only this kind has.
    """
    path = local_folder(folder)
    config, state = read_artifact(path, "policy", VERSION)
    auto, execution = AutoThresholds.from_json(config["auto"]), config.get("execution")
    extras = {k: v for k, v in config.items() if k not in (*COMMON_KEYS, *own_keys)}
    if auto is None and config["auto"] is not None:  # of an earlier rule; the digest stays the same
        extras["auto"] = config["auto"]
    return OpenedPolicy(
        path=path,
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
