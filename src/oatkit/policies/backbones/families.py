"""The families of backbones by name. A new family is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oatkit.errors import ArtefactError, unknown_name

if TYPE_CHECKING:
    from oatkit.policies.backbones.family import Family

FAMILIES = {
    "paligemma2": ("paligemma", "PaliGemma2"),
    "qwen3-vl": ("qwen3_vl", "Qwen3VL"),
    "smolvlm": ("smolvlm", "SmolVLM"),
}
"""Name to file and class; imported when asked for, because `transformers` takes seconds."""


def family_named(name: str) -> Family:
    if name not in FAMILIES:
        raise ValueError(unknown_name("backbone family", name, FAMILIES))
    file, class_name = FAMILIES[name]
    family: Family = getattr(import_module(f"oatkit.policies.backbones.{file}"), class_name)()
    return family


def family_of(model_type: str, where: str) -> Family:
    """The family whose checkpoints have this `model_type`."""
    known = {family.model_type: family for family in map(family_named, FAMILIES)}
    if model_type not in known:
        raise ArtefactError(
            f"{where} is a checkpoint of another family: "
            + unknown_name("model type", model_type, known)
        )
    return known[model_type]
