"""What every family has in common, whatever is in its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import family_named
from oatkit.policies.vlm.backbones.loading import load_backbone, write_scratch
from tests.policies import tiny
from tests.policies.vlm.tiny_vlm import families


@families
def test_vision_and_language_share_nothing(family: str, backbones: dict[str, Backbone]) -> None:
    """So that either can be frozen alone; together they are the whole model."""
    found, model = family_named(family), backbones[family].model
    vision = {id(p) for m in found.vision_modules(model) for p in m.parameters()}
    language = {id(p) for p in found.language_model(model).parameters()}
    assert not vision & language
    assert vision | language == {id(p) for p in model.parameters()}
    layers = {id(p) for layer in found.vision_layers(model) for p in layer.parameters()}
    assert layers < vision


@families
@pytest.mark.parametrize("has_images", [True, False])
def test_a_prompt_has_one_instruction_and_its_states(
    family: str, has_images: bool, backbones: dict[str, Backbone]
) -> None:
    found, processor = family_named(family), backbones[family].processor
    images = [(4, processor.grid((32, 32)))] * 2 if has_images else []
    parts = found.parts(processor.tokenizer, images, 3)
    kinds = [part.kind for part in parts]
    assert kinds.count("task") == kinds.count("state") == 1
    assert [part.image for part in parts if part.kind == "image"] == list(range(len(images)))
    assert sum(len(part) for part in parts if part.kind == "state") == 3
    assert not any(part.image is not None for part in parts if part.kind in ("task", "state"))
    assert "open the door" in found.task_text("open the door", has_images)


@families
def test_a_model_has_the_size_that_was_asked_for(family: str, tmp_path: Path) -> None:
    size = ScratchSize(
        width=48, num_layers=3, num_heads=6, num_kv_heads=3, head_dim=12, vision_layers=1
    )
    path = write_scratch(family, tmp_path / "b", size, tiny.TASKS)
    found = load_backbone(str(path), BackboneOptions())
    assert (found.width, found.num_layers, found.num_heads) == (48, 3, 6)
    assert (found.num_kv_heads, found.head_dim) == (3, 12)
    assert len(found.family.vision_layers(found.model)) == 1
