"""Names of tokenizers in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.lab.tokenizer_names import tokenizer_names


def test_names_tell_folders_apart() -> None:
    folders = [Path("/a/oat"), Path("/b/oat"), Path("/b/bin")]
    assert list(tokenizer_names(folders)) == ["oat", "b/oat", "bin"]


def test_one_folder_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="/a/oat is given twice"):
        tokenizer_names([Path("/a/oat"), Path("/a/oat")])
