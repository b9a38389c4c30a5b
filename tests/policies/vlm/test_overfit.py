"""A small set is learnt by heart: the network, its losses and how it acts fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oatkit.data import Dataset
from oatkit.measure.held_out_losses import measure_losses
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy, VlmConfig, policy_for_dataset
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.vlm_config import ExpertConfig
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families

COPIES = 4
"""Number of times that a chunk is in a batch, with noise of its own each."""


def learn(policy: Policy, dataset: Dataset, steps: int) -> tuple[float, float]:
    """Token accuracy, and the error of what is acted, of four chunks after training on them."""
    observation = tiny_vlm.batch(policy, dataset, 4)
    read = policy.read(observation)
    actions = torch.from_numpy(observation["action"])
    many, wanted = Observations.cat([read] * COPIES), actions.repeat(COPIES, 1, 1)
    tokens = policy.tokenizer.encode(wanted)
    optimizer = torch.optim.Adam(policy.net.parameters(), 3e-3)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / steps)
        random = SampleRandom(sample_keys(0, step, torch.arange(len(many))))
        loss = policy.loss(many, tokens, wanted, random).total
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    slots = measure_losses(policy, read, policy.tokenizer.encode(actions), actions).slots
    generated = policy.generate_once(read, torch.Generator().manual_seed(0))
    error = policy.actions.normalize(generated.chunk) - policy.actions.normalize(actions)
    return min(slot.accuracy for slot in slots), float(error.square().mean())


def make_policy(objective: str, checkpoint: Path, dataset: Dataset) -> Policy:
    torch.manual_seed(0)
    return policy_for_dataset(
        VlmConfig(objective, expert=ExpertConfig(width=64)),
        tiny.make_tokenizer("oat-pow2", dataset),
        dataset,
        backbone=str(checkpoint),
        cameras=("front",),
    )


@pytest.mark.slow
@families
def test_all_tokens_are_learnt(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    accuracy, _ = learn(make_policy("vlm-ar", checkpoints[family], dataset), dataset, 200)
    assert accuracy == 1


@pytest.mark.slow
@families
def test_chunks_are_learnt(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    accuracy, error = learn(make_policy("vlm-tc", checkpoints[family], dataset), dataset, 400)
    assert accuracy == 1
    assert error < 0.02
