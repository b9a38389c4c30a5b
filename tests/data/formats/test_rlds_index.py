from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data.formats import rlds_index
from oatkit.data.formats.rlds_index import find_episodes
from oatkit.data.formats.tfrecord import Span
from oatkit.data.source import Opening
from oatkit.errors import DatasetError
from tests.data import rlds_writer


def measure(data: memoryview, record: Span) -> tuple[int, list[str]]:
    return record[1] - record[0], [str(data[slice(*record)], "utf-8")]


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(rlds_writer.tfrecord([b"open", b"close"]))
    paths[1].write_bytes(rlds_writer.tfrecord([b"open", b"lift up"]))
    return paths


def test_places_lengths_and_tasks_of_all_files(paths: list[Path], tmp_path: Path) -> None:
    index = find_episodes(paths, measure, "", Opening(tmp_path / "cache"))
    assert index.file_of.tolist() == [0, 0, 1, 1]
    assert index.lengths.tolist() == [4, 5, 4, 7]
    assert index.tasks == ["open", "close", "lift up"]
    for file, (start, end), length in zip(index.file_of, index.spans, index.lengths, strict=True):
        assert len(paths[file].read_bytes()[start:end]) == length


def test_files_are_read_once_until_they_change(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Opening(tmp_path / "cache")
    first = find_episodes(paths, measure, "", opening)
    read: list[Path] = []
    original = rlds_index.read_records
    monkeypatch.setattr(rlds_index, "read_records", lambda p: read.append(p) or original(p))
    again = find_episodes(paths, measure, "", opening)
    assert read == []
    np.testing.assert_array_equal(first.spans, again.spans)
    assert (first.tasks, first.lengths.tolist()) == (again.tasks, again.lengths.tolist())
    paths[1].write_bytes(rlds_writer.tfrecord([b"another"]))
    assert find_episodes(paths, measure, "", opening).tasks == ["open", "close", "another"]
    assert read == paths
    find_episodes(paths, measure, "another measure", opening)
    assert read == paths * 2


def test_a_broken_file_leaves_nothing_in_the_cache(paths: list[Path], tmp_path: Path) -> None:
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    with pytest.raises(DatasetError, match="b: record 1"):
        find_episodes(paths, measure, "", Opening(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_a_record_that_cannot_be_measured_is_named(paths: list[Path], tmp_path: Path) -> None:
    def fail(data: memoryview, record: Span) -> tuple[int, list[str]]:
        raise ValueError("no steps")

    with pytest.raises(DatasetError, match=r"a cannot be read \(record 0\) .*no steps"):
        find_episodes(paths, fail, "", Opening(tmp_path / "cache"))
