"""A folder that is no export, or one of a later version, is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oatkit_client.exported_files import read_description


def test_the_description_of_an_export(exported: tuple[Path, Path]) -> None:
    facts = read_description(exported[1])
    assert (facts["schema"], facts["version"]) == ("oatkit/export", 1)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ("{", "export.json cannot be read: "),
        (json.dumps({"schema": "oatkit/policy", "version": 1}), "schema 'oatkit/policy', expected"),
        (json.dumps({"schema": "oatkit/export"}), "expected 'oatkit/export'"),
        (
            json.dumps({"schema": "oatkit/export", "version": 2}),
            "version 2 of oatkit/export, this client reads up to 1: install a later oatkit-client",
        ),
    ],
)
def test_what_is_no_export(facts: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "export.json").write_text(facts)
    with pytest.raises(ValueError, match=problem):
        read_description(tmp_path)


def test_a_folder_that_is_not_there_or_empty_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing is no folder: `oatkit export POLICY --out DIR`"):
        read_description(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"holds no export.json: `oatkit export"):
        read_description(tmp_path)
