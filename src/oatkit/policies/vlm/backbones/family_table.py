"""The families of backbones by name. A new family is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from oatkit.errors import ArtifactError, unknown_name

if TYPE_CHECKING:
    from oatkit.policies.vlm.backbones.family import Family


@dataclass(frozen=True)
class Home:
    """Where a family is; imported when asked for, because `transformers` takes seconds."""

    file: str
    class_name: str
    example: str
    """A checkpoint on the hub."""


FAMILIES = {
    "paligemma2": Home("paligemma", "PaliGemma2", "google/paligemma2-3b-pt-224"),
    "qwen3-vl": Home("qwen3_vl", "Qwen3VL", "Qwen/Qwen3-VL-2B-Instruct"),
    "smolvlm": Home("smolvlm", "SmolVLM", "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"),
}


def family_named(name: str) -> Family:
    if name not in FAMILIES:
        raise ValueError(unknown_name("backbone family", name, FAMILIES))
    home = FAMILIES[name]
    module = import_module(f"oatkit.policies.vlm.backbones.{home.file}")
    family: Family = getattr(module, home.class_name)()
    return family


def family_of(model_type: str, where: str) -> Family:
    """The family whose checkpoints have this `model_type`."""
    known = {family.model_type: family for family in map(family_named, FAMILIES)}
    if model_type not in known:
        raise ArtifactError(
            f"{where} is a checkpoint of another family: "
            + unknown_name("model type", model_type, known)
        )
    return known[model_type]
