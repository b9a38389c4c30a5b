from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.data.formats.format_table import FORMATS, files_ending_in
from tests.data.datasets import WRITERS, make_demos

NAMES = {
    "lerobot-v3": "LeRobot",
    "lerobot-v2.1": "LeRobot",
    "robomimic": "HDF5",
    "libero": "HDF5",
    "zarr": "zarr",
    "rlds": "RLDS",
    "npz-folder": "npz",
    "npz-file": "npz",
}


@pytest.mark.parametrize("name", WRITERS)
def test_exactly_one_format_recognizes_a_dataset(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, make_demos())
    assert [known.name for known in FORMATS if known.find(path)] == [NAMES[name]]


def test_every_format_has_a_writer_in_the_tests() -> None:
    assert {known.name for known in FORMATS} == set(NAMES.values())


def test_nothing_recognizes_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        assert [known.name for known in FORMATS if known.find(path)] == []


def test_files_are_found_by_suffix_and_sorted(tmp_path: Path) -> None:
    for name in ("b.h5", "a.HDF5", "c.txt"):
        (tmp_path / name).touch()
    found = files_ending_in(tmp_path, ".h5", ".hdf5")
    assert [path.name for path in found] == ["a.HDF5", "b.h5"]
    assert files_ending_in(tmp_path / "b.h5", ".h5") == [tmp_path / "b.h5"]
    assert files_ending_in(tmp_path / "c.txt", ".h5") == []
