"""Opening a policy of any kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

from oatkit.errors import ArtifactError, unknown_name
from oatkit.policies.light.light_policy import LightPolicy
from oatkit.policies.policy import Head, Policy
from oatkit.policies.vlm.vlm_config import HEADS
from oatkit.policies.vlm.vlm_policy import VlmPolicy
from oatkit.storage.artifact import config_file, local_folder, read_unchanged, require_config

KINDS: dict[str, type[LightPolicy] | type[VlmPolicy]] = {
    "light": LightPolicy,
    **dict.fromkeys(HEADS, VlmPolicy),
}


def choose_head(policy: Policy, head: Head | None) -> None:
    """Let a policy act by one of its heads; by its own choice where None is named."""
    if head is None:
        return
    if head not in policy.heads:
        raise ValueError(f"{policy.kind} has no head {head!r}, only {list(policy.heads)}")
    policy.head = head


def load_policy(folder: str | os.PathLike[str]) -> Policy:
    """Open a trained policy from a folder or, by its id, from the Hugging Face hub."""
    return read_unchanged(local_folder(folder), _load)


def _load(path: Path) -> Policy:
    require_config(path, "policy")
    try:
        config = json.loads(config_file(path).read_text())
        kind = config["kind"] if config.get("schema") == "oatkit/policy" else "light"
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{path} is no readable policy artifact ({error})") from error
    if kind not in KINDS:
        raise ArtifactError(f"{path}: {unknown_name('policy kind', str(kind), KINDS)}")
    return KINDS[kind].from_pretrained(path)
