"""Calibrating a trained policy again, for the machine that it acts on."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from oatkit.data import Dataset
from oatkit.jobs.artifact_split import SplitName, select_episodes
from oatkit.measure.policy_metrics import observations_to_measure
from oatkit.policies import Policy
from oatkit.policies.policy_artifact import CALIBRATED_KEYS
from oatkit.storage.artifact import change_config

MAX_CHUNKS = 512
"""Maximum number of chunks to calibrate on; they are spread evenly over a larger dataset."""


def calibrate_policy(
    policy: Policy,
    folder: str | os.PathLike[str],
    dataset: Dataset,
    *,
    split: SplitName = "val",
    seed: int = 0,
) -> None:
    """Calibrate a policy on the device it is on, and write what was found into its artifact.

    Nothing else of the artifact changes.

    Args:
        policy: What `load_policy` opened.
        folder: Artifact, a folder of this machine.
        dataset: Dataset that it was trained on.
        split: Which of its episodes; by default those that were held out.
        seed: Seed of the sampled tokens.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"{folder} is no folder of this machine: what is found is written into it")
    episodes = select_episodes(policy.extras, dataset, split)
    observations, actions_BTA, _ = observations_to_measure(policy, episodes, MAX_CHUNKS)
    policy.calibrate(observations, actions_BTA, torch.Generator().manual_seed(seed))
    found = policy.to_json()
    change_config(path, {key: found[key] for key in CALIBRATED_KEYS})
