"""Configurations: what is refused, and the way to JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oatkit.nn.image_augmentation import Augmentation
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.vlm_config import (
    OBJECTIVES,
    ExpertConfig,
    VlmConfig,
    require_successor,
    stage_flags,
)


@pytest.mark.parametrize(
    "config",
    [
        VlmConfig(),
        VlmConfig("vlm-ar", endpoints=(1, 2, 4)),
        VlmConfig("vlm-tc", flow_weight=0.5, expert=ExpertConfig(12, num_layers=1, num_steps=3)),
        VlmConfig("vlm-flow", backbone=BackboneOptions(lora_rank=2, dtype="bfloat16")),
        VlmConfig("vlm-flow", augmentation=Augmentation(0.9, 0.3, ("wrist",)), mask_padding=True),
    ],
    ids=["default", "vlm-ar", "vlm-tc", "vlm-flow", "augmented"],
)
def test_json_and_back(config: VlmConfig) -> None:
    assert VlmConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width is 0, expected at least 1"),
        ({"num_steps": 0}, "num_steps is 0, expected at least 1"),
        ({"num_layers": 0}, "num_layers is 0, expected at least 1"),
    ],
)
def test_an_expert_without_size_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExpertConfig(**settings)


@pytest.mark.parametrize("objective", ["vlm-tc", "vlm-flow"])
def test_only_block_wise_objectives_have_a_schedule(objective: str) -> None:
    with pytest.raises(ValueError, match=f"{objective} has no schedule: leave --endpoints out"):
        VlmConfig(objective, endpoints=(8,))


def test_objectives_and_their_heads() -> None:
    assert [name for name in OBJECTIVES if VlmConfig(name).is_cotrained] == ["vlm-tc"]
    with pytest.raises(ValueError, match="unknown objective 'vlm-tk'; known, closest first: vlm-t"):
        VlmConfig("vlm-tk")
    assert VlmConfig("vlm-tc").heads == ("flow", "tokens")


def test_how_a_policy_is_trained_as_flags() -> None:
    assert stage_flags(VlmConfig("vlm-tc")) == {}
    found = stage_flags(
        VlmConfig(
            "vlm-tc",
            flow_draws=4,
            expert_only=True,
            augmentation=Augmentation(0.9, uncropped=("wrist", "top")),
            backbone=BackboneOptions(dtype="bfloat16", freeze_vision=True, save_memory=True),
        )
    )
    assert " ".join(found.values()) == (
        "--flow-draws 4 --expert-only --crop 0.9 --uncropped wrist top --freeze-vision "
        "--dtype bfloat16"
    )


def test_weights_are_not_rounded() -> None:
    full = VlmConfig("vlm-tc")
    half = replace(full, backbone=BackboneOptions(dtype="bfloat16"))
    require_successor(half, half)
    require_successor(half, full)
    with pytest.raises(ValueError, match=r"are float32, which bfloat16 would round: leave --dtype"):
        require_successor(full, half)
