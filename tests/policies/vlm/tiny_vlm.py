"""Small vision-language policies on backbones with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy, VlmConfig, policy_for_dataset
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.vlm_config import ExpertConfig
from tests.policies import tiny

EXPERT = ExpertConfig(width=24, num_steps=3)
families = pytest.mark.parametrize("family", list(FAMILIES))
"""Runs a test for every family."""


def make_policy(
    objective: str,
    checkpoint: Path,
    kind: str,
    dataset: Dataset,
    *,
    history: int = 1,
    cameras: tuple[str, ...] = ("front",),
    reads_state: bool = True,
    **settings: Any,
) -> Policy:
    """A policy with weights large enough for everything to be noticed."""
    config = VlmConfig(**{"objective": objective, "expert": EXPERT, **settings})
    tokenizer = tiny.make_tokenizer(kind, dataset)
    torch.manual_seed(1)
    policy = policy_for_dataset(
        config,
        tokenizer,
        dataset,
        backbone=str(checkpoint),
        history=history,
        cameras=cameras,
        reads_state=reads_state,
    )
    for parameter in policy.net.parameters():
        if parameter.ndim > 1 and parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.2)
    return policy


def batch(policy: Policy, dataset: Dataset, size: int = 3) -> dict[str, Any]:
    return tiny.batch(policy, dataset, size)  # type: ignore[arg-type]


def sample(policy: Policy, dataset: Dataset, size: int = 2) -> tuple[Observations, Tensor]:
    """Observations as the network reads them, and their raw actions."""
    observation = batch(policy, dataset, size)
    return policy.read(observation), torch.from_numpy(observation["action"])


def sample_random(size: int = 2) -> SampleRandom:
    return SampleRandom(sample_keys(0, 0, torch.arange(size)))
