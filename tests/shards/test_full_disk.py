"""A disk that is really full in the middle of a shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardFolder, ShardNumber, merge_folder, run_shard
from oatkit.shards.full_disk import full_disk_explained
from oatkit.shards.unit_arrays import write_arrays
from tests.shards.small_disk import make_room, small_disk
from tests.shards.toy_work import MERGES, Squares


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "256k") as folder:
        yield folder


class Large(Squares):
    """Writes 50 KB beside every record."""

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key, result in super().run(keys, folder):
            write_arrays(folder / f"{result}.npz", {"zeros": np.zeros(50_000, np.uint8)})
            yield key, result


def test_units_are_kept_and_go_on_when_there_is_room(disk: Path) -> None:
    with pytest.raises(ShardError, match=r"no room is left for .*disk: make room; finished units"):
        run_shard(Large(8), ShardNumber(0, 1), disk)
    folder = ShardFolder(disk)
    kept = [key for key in folder.plan.units if folder.has(key)]
    assert 0 < len(kept) < 8
    assert not list(disk.rglob("writing-*")), "nothing is left half written"
    make_room(disk, "2m")
    again = Large(8)
    run_shard(again, ShardNumber(0, 1), disk)
    assert again.ran == list(folder.plan.units)[len(kept) :]
    assert merge_folder(disk, MERGES).exists()


def test_a_record_or_a_plan_that_does_not_fit(disk: Path) -> None:
    run_shard(Squares(3), ShardNumber(0, 2), disk / "d")
    (disk / "ballast").write_bytes(b"0" * 4096 * (256 // 4 - 8))
    fill_up(disk / "rest")
    with pytest.raises(ShardError, match="no room is left for"):
        run_shard(Squares(3), ShardNumber(1, 2), disk / "d")
    with pytest.raises(ShardError, match="no room is left for"):
        run_shard(Squares(3), ShardNumber(0, 1), disk / "other")
    (disk / "ballast").unlink()
    run_shard(Squares(3), ShardNumber(1, 2), disk / "d")
    fill_up(disk / "rest")
    with pytest.raises(ShardError, match="no room is left for"):
        merge_folder(disk / "d", MERGES)
    (disk / "rest").unlink()
    assert merge_folder(disk / "d", MERGES).exists()


def fill_up(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 512)
        except OSError:
            return


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), full_disk_explained(tmp_path):
        (tmp_path / "nothing").read_bytes()
    with (
        pytest.raises(ShardError, match="no room is left"),
        full_disk_explained(tmp_path),
    ):  # as a library that wraps the system's error says it
        raise RuntimeError("I/O error: No space left on device (os error 28)")
