"""Which parameters of a backbone are trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.loading import load_backbone
from oatkit.policies.vlm.backbones.trained_parts import train_parts
from tests.policies.vlm.tiny_vlm import families


@families
@pytest.mark.parametrize("rank", [0, 4])
def test_what_was_trained_before_does_not_matter(
    family: str, rank: int, checkpoints: dict[str, Path]
) -> None:
    options = BackboneOptions(lora_rank=rank, freeze_vision=True)
    backbone = load_backbone(str(checkpoints[family]), options)
    wanted = {name: p.requires_grad for name, p in backbone.named_parameters()}
    assert any(wanted.values())
    assert not all(wanted.values())
    backbone.requires_grad_(False)
    train_parts(backbone, options)
    assert {name: p.requires_grad for name, p in backbone.named_parameters()} == wanted


def test_adapters_are_trained_in_place_of_the_language_model(checkpoints: dict[str, Path]) -> None:
    options = BackboneOptions(lora_rank=4, freeze_vision=True)
    backbone = load_backbone(str(checkpoints["qwen3-vl"]), options)
    trained = [name for name, p in backbone.named_parameters() if p.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
