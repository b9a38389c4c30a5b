"""Checkpoints: what is loaded, adapted, frozen, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from oatkit.errors import ArtifactError, OatkitError
from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import (
    build_backbone,
    load_backbone,
    require_version,
    write_scratch,
)
from tests.policies import tiny
from tests.policies.vlm.backbones.transformers_reference import (
    close,
    load,
    prefill,
)
from tests.policies.vlm.tiny_vlm import families


def test_another_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava"}))
    with pytest.raises(ArtifactError, match="another family: unknown model type 'llava'"):
        load_backbone(str(tmp_path), BackboneOptions())
    with pytest.raises(ArtifactError, match="none does not exist, and is no id of the Hugging"):
        load_backbone(str(tmp_path / "none"), BackboneOptions())
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer/config.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is a policy, not a backbone: start from it with"):
        load_backbone(str(tmp_path), BackboneOptions())


@pytest.mark.parametrize("version", ["4.57.1", "5.3.0", "6.0.0"])
def test_versions_that_are_not_served_are_named(version: str) -> None:
    with pytest.raises(OatkitError, match=f"transformers {version} is installed, .* 5.4 or later"):
        require_version(version)
    require_version("5.4.0")


def test_sdpa_is_refused_where_it_is_wrong(checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="caps its attention scores"):
        load_backbone(str(checkpoints["paligemma2"]), BackboneOptions(attention="sdpa"))
    eager = load(checkpoints["qwen3-vl"], attention="eager")
    usual = load(checkpoints["qwen3-vl"])
    with torch.no_grad():
        close(prefill(eager).hidden, prefill(usual).hidden)


@families
def test_each_part_has_the_attention_that_it_can_have(
    family: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    """Eager attention of the vision tower would write all scores to the memory of a GPU."""
    usual, eager = load(checkpoints[family]), load(checkpoints[family], attention="eager")
    language = "eager" if family == "paligemma2" else "sdpa"
    assert attention(usual) == {"language": {language}, "vision": {"sdpa"}}
    assert attention(eager) == {"language": {"eager"}, "vision": {"eager"}}
    usual.processor.save_pretrained(tmp_path)
    assert attention(build_backbone(tmp_path, BackboneOptions())) == attention(usual)
    with torch.no_grad():
        close(prefill(usual).hidden, prefill(eager).hidden)


def attention(backbone: Backbone) -> dict[str, set[str]]:
    """Implementations that the layers of each part of a model call."""
    parts = {
        "language": [backbone.family.language_model(backbone.model)],
        "vision": backbone.family.vision_modules(backbone.model),
    }
    return {
        name: {
            module.config._attn_implementation  # type: ignore[union-attr]
            for part in modules
            for module in part.modules()
            if type(module).__name__.endswith("Attention")
        }
        for name, modules in parts.items()
    }


@families
def test_parts_are_frozen_and_adapted(family: str, checkpoints: dict[str, Path]) -> None:
    backbone = load_backbone(
        str(checkpoints[family]), BackboneOptions(freeze_vision=True, lora_rank=2, dtype="bfloat16")
    )
    trained = {n for n, p in backbone.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in n for n in trained)
    assert prefill(backbone).hidden.dtype == torch.bfloat16
    frozen = load_backbone(str(checkpoints[family]), BackboneOptions(freeze_language=True))
    left = {n for n, p in frozen.named_parameters() if p.requires_grad}
    assert left
    assert not any(n.startswith(("model.language_model", "model.text_model")) for n in left)


def test_adapters_of_what_is_frozen_are_refused(checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="--lora-rank trains what --freeze-language freezes"):
        load_backbone(
            str(checkpoints["qwen3-vl"]), BackboneOptions(freeze_language=True, lora_rank=2)
        )


@families
def test_a_checkpoint_with_random_weights_is_the_same_again(
    family: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    again = write_scratch(family, tmp_path / "again", ScratchSize(), tiny.TASKS)
    wanted, found = (load_file(path / "model.safetensors") for path in (checkpoints[family], again))
    assert wanted.keys() == found.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    other = write_scratch(family, tmp_path / "other", ScratchSize(), tiny.TASKS, seed=1)
    moved = load_file(other / "model.safetensors")
    assert any(not torch.equal(moved[key], wanted[key]) for key in wanted)


@families
def test_a_backbone_is_built_without_its_weights(
    family: str, backbones: dict[str, Backbone], tmp_path: Path
) -> None:
    wanted = backbones[family]
    wanted.processor.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))
    built = build_backbone(tmp_path, BackboneOptions())
    built.load_state_dict(wanted.state_dict())
    with torch.no_grad():
        close(prefill(built).hidden, prefill(wanted).hidden)
