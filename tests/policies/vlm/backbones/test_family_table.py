"""The table of families: names, files and what is said of a name that is not in it."""

from __future__ import annotations

import pytest

from oatkit.errors import ArtifactError
from oatkit.policies.vlm.backbones.family_table import FAMILIES, family_named, family_of_checkpoint
from tests.policies.vlm.tiny_vlm import families


@families
def test_a_row_leads_to_its_family(family: str) -> None:
    found = family_named(family)
    assert found.name == family
    assert type(found).__name__ == FAMILIES[family].class_name
    assert family_of_checkpoint(found.model_type, "x").name == family
    assert FAMILIES[family].example.count("/") == 1


def test_unknown_names_are_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match=r"unknown backbone family 'qwen3'; known, .*: qwen3-vl,"):
        family_named("qwen3")
    with pytest.raises(ArtifactError, match=r"out/x is a checkpoint of another family: .*'gemma3'"):
        family_of_checkpoint("gemma3", "out/x")
