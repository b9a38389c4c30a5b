"""A backbone family is added as `docs/adding_a_backbone.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.extending.harness import Extended, extend

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("adding_a_backbone.md", tmp_path_factory.mktemp("backbone"))


def test_a_family_is_one_file_and_one_row(extended: Extended) -> None:
    assert len(extended.new) == 1
    assert len(extended.changed) == 1


def test_a_checkpoint_is_written_and_checked(extended: Extended, tmp_path: Path) -> None:
    folder, record = str(tmp_path / "backbone"), tmp_path / "check.json"
    extended.oatkit("vlm", "scratch", "--family", "internvl3", "--out", folder)
    size = ("--image-size", "32", "--expert-width", "16", "--batch-size", "2")
    printed = extended.oatkit("vlm", "check", folder, *size, "--out", str(record))
    assert "internvl3" in printed
    invariants = json.loads(record.read_text())["invariants"]
    assert len(invariants) == 15
    assert all(invariant["holds"] for invariant in invariants)


def test_lists_help_and_errors_name_it(extended: Extended) -> None:
    listed = extended.oatkit("vlm", "combinations")
    assert "vlm-tc/oat-pow2/internvl3" in listed
    assert "--backbone OpenGVLab/InternVL3-1B-hf" in listed
    assert "internvl3" in extended.oatkit("vlm", "scratch", "--help")
    code = "from oatkit.policies.vlm.backbones.family_table import family_named as f\nf('internvl')"
    with pytest.raises(AssertionError, match=r"backbone family 'internvl'; known, .*: internvl3"):
        extended.run("-c", code)


def test_the_tests_of_families_run_on_it(extended: Extended) -> None:
    """Prompt, pixels and hidden states are those of `transformers`."""
    tests = "tests/policies/vlm/backbones"
    chosen = "internvl3 and (transformers or image_processor or missing_image)"
    assert "3 passed" in extended.run("-m", "pytest", "-q", tests, "-k", chosen)
