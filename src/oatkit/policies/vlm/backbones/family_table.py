"""The one list of backbone families.

A new family is one file and one row here: `docs/adding_a_backbone.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from oatkit.errors import ArtifactError, unknown_name

if TYPE_CHECKING:
    from oatkit.policies.vlm.backbones.family import Family


@dataclass(frozen=True)
class FamilyRow:
    """Where a family is found; it is imported on demand, because `transformers` takes seconds."""

    file: str
    """Name of the file beside this one."""
    class_name: str
    """Name of the class in that file."""
    example: str
    """Id of a checkpoint on the Hugging Face hub."""


FAMILIES = {
    "paligemma2": FamilyRow("paligemma", "PaliGemma2", "google/paligemma2-3b-pt-224"),
    "qwen3-vl": FamilyRow("qwen3_vl", "Qwen3VL", "Qwen/Qwen3-VL-2B-Instruct"),
    "smolvlm": FamilyRow("smolvlm", "SmolVLM", "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"),
}
"""Family by its name on the command line."""


def family_named(name: str) -> Family:
    """The family of a name; an unknown name is an error."""
    if name not in FAMILIES:
        raise ValueError(unknown_name("backbone family", name, FAMILIES))
    row = FAMILIES[name]
    module = import_module(f"oatkit.policies.vlm.backbones.{row.file}")
    family: Family = getattr(module, row.class_name)()
    return family


def family_of_checkpoint(model_type: str, checkpoint: str) -> Family:
    """The family whose checkpoints have this `model_type`; an unknown one is an error."""
    known = {family.model_type: family for family in map(family_named, FAMILIES)}
    if model_type not in known:
        raise ArtifactError(
            f"{checkpoint} is a checkpoint of another family: "
            + unknown_name("model type", model_type, known)
        )
    return known[model_type]
