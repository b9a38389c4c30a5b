"""Where a job works: a folder that stays, or one that is gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.jobs.working_folder import working_folder


def test_a_named_folder_stays(tmp_path: Path) -> None:
    with working_folder(str(tmp_path / "out")) as folder:
        assert folder == tmp_path / "out"
        folder.mkdir()
    assert folder.exists()


def test_an_unnamed_folder_is_gone_even_after_an_error() -> None:
    seen = []

    def fail() -> None:
        with working_folder(None) as folder:
            (folder / "file").write_text("x")
            seen.append(folder)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not seen[0].exists()
