"""The table of families: names, files and what is said of a name that is not in it."""

from __future__ import annotations

from pathlib import Path

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


def test_the_page_on_vision_language_policies_has_a_row_for_every_family() -> None:
    page = (Path(__file__).parents[4] / "docs/vlm.md").read_text()
    _, table = page.split("| family | attention over the context | order |\n|---|---|---|\n")
    rows = [line.split("|")[1:3] for line in table.split("\n\n")[0].splitlines()]
    attention = {True: "causal", False: "full"}
    assert [[cell.strip() for cell in row] for row in rows] == [
        [f"`{name}`", attention[family_named(name).is_context_causal]] for name in FAMILIES
    ]
