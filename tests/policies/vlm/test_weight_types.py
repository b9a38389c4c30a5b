"""Types of weights: what is trained is float32 whatever --dtype says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from oatkit.data import Dataset
from oatkit.policies import Policy, load_policy
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from tests.policies.vlm.tiny_vlm import families, make_policy, sample, sample_random

LEARNING_RATE = 1e-4
STEPS = 60
MIXTURES: dict[str, dict[str, Any]] = {
    "adapters": {"lora_rank": 2},
    "adapters and vision": {"lora_rank": 2, "train_vision": True},
    "language": {"freeze_vision": True},
    "vision": {"freeze_language": True},
    "all": {},
}
"""What is trained, and the options that say so."""
mixtures = pytest.mark.parametrize("mixture", list(MIXTURES))


def bfloat16_policy(
    checkpoint: Path, dataset: Dataset, mixture: str, objective: str = "vlm-tc"
) -> Policy:
    options = BackboneOptions(dtype="bfloat16", **MIXTURES[mixture])
    return make_policy(objective, checkpoint, "oat-pow2", dataset, backbone=options)


def autocast(is_on: bool) -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16) if is_on else nullcontext()


def loss(policy: Policy, dataset: Dataset) -> Tensor:
    observations, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    return policy.loss(observations, tokens, actions, sample_random()).total


def test_small_steps_are_rounded_away_in_bfloat16() -> None:
    """The arithmetic of a weight of 0.05 and steps of AdamW, which are as long as the learning rate
    where gradients agree: on any device."""
    moved = {}
    for dtype in (torch.bfloat16, torch.float32):
        start = torch.tensor(0.05, dtype=dtype)
        weight = start.clone()
        for _ in range(4000):
            weight -= torch.tensor(LEARNING_RATE, dtype=dtype)
        moved[dtype] = float(start - weight)
    assert moved[torch.bfloat16] == 0
    assert moved[torch.float32] == pytest.approx(4000 * LEARNING_RATE, rel=0.01)


@mixtures
@families
def test_what_is_trained_is_float32(
    family: str, mixture: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    net = bfloat16_policy(checkpoints[family], dataset, mixture).net
    trained = {n: p.dtype for n, p in net.named_parameters() if p.requires_grad}
    assert set(trained.values()) == {torch.float32}
    assert any(name.startswith("backbone") for name in trained)
    assert all(name in trained for name, _ in net.named_parameters() if "backbone" not in name)
    frozen = {p.dtype for p in net.backbone.parameters() if not p.requires_grad}
    assert frozen == (set() if mixture == "all" else {torch.bfloat16})


@pytest.mark.parametrize("mixture", ["adapters", "all"])
def test_every_trained_weight_moves(
    mixture: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """Sixty steps at 1e-4 under autocast, as a run on GPUs with --dtype bfloat16 begins. Every
    number of every trained tensor that has a gradient moves; in bfloat16 those of 0.05 and above
    stay where they are, and the run learns nothing."""
    policy = bfloat16_policy(checkpoints["qwen3-vl"], dataset, mixture)
    trained = {n: p for n, p in policy.net.named_parameters() if p.requires_grad}
    start = {name: parameter.detach().clone() for name, parameter in trained.items()}
    has_gradient = {name: torch.zeros_like(p, dtype=torch.bool) for name, p in trained.items()}
    optimizer = torch.optim.AdamW(trained.values(), LEARNING_RATE, weight_decay=0)
    for _ in range(STEPS):
        with autocast(True):
            total = loss(policy, dataset)
        total.backward()  # type: ignore[no-untyped-call]
        for name, parameter in trained.items():
            assert parameter.grad is not None, name
            has_gradient[name] |= parameter.grad.abs() > 1e-6
        optimizer.step()
        optimizer.zero_grad()
    for name, parameter in trained.items():
        moved = (parameter.detach() - start[name]).abs()
        assert moved.max() > 10 * LEARNING_RATE, name
        assert (moved[has_gradient[name]] > 0).float().mean() > 0.99, name


@pytest.mark.parametrize("is_autocast", [False, True])
@mixtures
@families
def test_mixed_types_compute_what_float32_does(
    family: str, mixture: str, is_autocast: bool, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """Loss and gradients, under autocast as in training and without it as in acting on a CPU; a
    layer that meets two types would raise an error on a GPU too."""
    policy = bfloat16_policy(checkpoints[family], dataset, mixture)
    with autocast(is_autocast):
        total = loss(policy, dataset)
    total.backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in policy.net.parameters() if p.requires_grad]
    assert all(grad is not None and grad.dtype == torch.float32 for grad in gradients)
    assert all(bool(grad.isfinite().all()) for grad in gradients if grad is not None)
    policy.net.float()
    wanted = loss(policy, dataset)
    assert total.item() == pytest.approx(wanted.item(), rel=0.05)


@families
def test_a_policy_of_mixed_types_acts_and_is_loaded_as_it_was(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    policy = bfloat16_policy(checkpoints[family], dataset, "adapters")
    observations, _ = sample(policy, dataset)
    again = load_policy(policy.save_pretrained(tmp_path / "policy"))
    types = {name: p.dtype for name, p in policy.net.named_parameters()}
    assert {name: p.dtype for name, p in again.net.named_parameters()} == types
    for head in ("flow", "tokens"):
        chunks = []
        for acting in (policy, again):
            acting.head = head  # type: ignore[assignment]
            generator = torch.Generator().manual_seed(0)
            chunks.append(acting.predict_action_chunk(observations, generator=generator).chunk)
        torch.testing.assert_close(chunks[0], chunks[1])


def test_adapters_that_were_stored_as_bfloat16_are_trained_as_float32(
    checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """Artifacts of earlier versions hold them so."""
    policy = bfloat16_policy(checkpoints["smolvlm"], dataset, "adapters")
    path = policy.save_pretrained(tmp_path / "policy") / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path)
    again = load_policy(path.parent)
    assert {p.dtype for p in again.net.parameters() if p.requires_grad} == {torch.float32}


@torch.no_grad()
@families
def test_masks_follow_what_is_computed_in(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """The least number of float32 would become minus infinity in bfloat16, and a row of nothing
    else would be NaN."""
    backbone = bfloat16_policy(checkpoints[family], dataset, "all").net.backbone
    is_allowed = torch.zeros(1, 2, 2, dtype=torch.bool)
    for is_on, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        with autocast(is_on):
            assert backbone.dtype == dtype
            mask = backbone._additive_mask(is_allowed)
        assert mask.dtype == dtype
        assert mask.to(torch.bfloat16 if is_on else dtype).isfinite().all()
