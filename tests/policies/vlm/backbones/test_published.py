"""Sizes of published checkpoints: they have as many parameters as was published."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import empty_backbone
from oatkit.policies.vlm.backbones.published import PUBLISHED

PARAMETERS = {
    "google/paligemma2-3b-pt-224": 3.03e9,
    "google/paligemma2-3b-pt-448": 3.03e9,
    "google/paligemma2-10b-pt-224": 9.66e9,
    "Qwen/Qwen3-VL-2B-Instruct": 2.13e9,
    "Qwen/Qwen3-VL-4B-Instruct": 4.44e9,
    "Qwen/Qwen3-VL-8B-Instruct": 8.77e9,
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": 0.256e9,
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": 0.507e9,
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": 2.25e9,
}
"""Parameters that their pages state; those without tied embeddings have a head for text beside."""
UNTIED = ("Qwen3-VL-8B", "SmolVLM2-256M", "SmolVLM2-500M", "SmolVLM2-2.2B")
SLOTS = {"pt-224": 256, "pt-448": 1024, "Qwen3": 64, "256M": 64, "500M": 64, "2.2B": 81}
"""Slots of an image of 224 x 224, by a part of the name."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_slots_are_the_published_ones(name: str) -> None:
    backbone = empty_backbone(name, BackboneOptions())
    count = sum(parameter.numel() for parameter in backbone.parameters())
    if any(part in name for part in UNTIED):
        count += backbone.text_config.vocab_size * backbone.width
    assert count == pytest.approx(PARAMETERS[name], rel=0.005)
    (slots,) = (count for part, count in SLOTS.items() if part in name)
    assert backbone.processor.num_image_slots((224, 224)) == slots


def test_families_are_known() -> None:
    assert {row.family for row in PUBLISHED.values()} <= FAMILIES.keys()
