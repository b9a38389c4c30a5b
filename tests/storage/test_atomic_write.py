"""A file appears completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.storage.atomic_write import atomic_write, flush


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as aside:
        aside.write_text("new")
        assert not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "new"


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as aside:
            aside.write_text("half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_files_and_folders_are_flushed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    flush(tmp_path / "a.txt")
    flush(tmp_path)
    with pytest.raises(FileNotFoundError):
        flush(tmp_path / "none.txt")


def test_writers_of_one_file_do_not_write_over_each_other(tmp_path: Path) -> None:
    """Containers that share a disk often have the same process numbers."""
    path = tmp_path / "cache"
    with atomic_write(path) as one:
        one.write_text("first")
        with atomic_write(path) as other:
            assert not other.exists()
            other.write_text("second")
        assert (path.read_text(), one.read_text()) == ("second", "first")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
