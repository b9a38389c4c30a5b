"""A disk that is really full: a small file system of its own, where mounting is allowed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardFolder, ShardNumber, merge_folder, run_shard
from oatkit.shards.full_disk import full_disk_explained
from oatkit.shards.unit_arrays import write_arrays
from tests.shards.toy_work import MERGES, Squares


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class Large(Squares):
    """Writes 50 KB beside every record."""

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key, result in super().run(keys, folder):
            write_arrays(folder / f"{result}.npz", {"zeros": np.zeros(50_000, np.uint8)})
            yield key, result


def test_units_are_kept_and_go_on_when_there_is_room(small_disk: Path) -> None:
    with pytest.raises(ShardError, match=r"no room is left for .*disk: make room; finished units"):
        run_shard(Large(8), ShardNumber(0, 1), small_disk)
    folder = ShardFolder(small_disk)
    kept = [key for key in folder.plan.units if folder.has(key)]
    assert 0 < len(kept) < 8
    assert not list(small_disk.rglob("writing-*")), "nothing is left half written"
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    again = Large(8)
    run_shard(again, ShardNumber(0, 1), small_disk)
    assert again.ran == list(folder.plan.units)[len(kept) :]
    assert merge_folder(small_disk, MERGES).exists()


def test_a_record_or_a_plan_that_does_not_fit(small_disk: Path) -> None:
    run_shard(Squares(3), ShardNumber(0, 2), small_disk / "d")
    (small_disk / "ballast").write_bytes(b"0" * 4096 * (256 // 4 - 8))
    fill_up(small_disk / "rest")
    with pytest.raises(ShardError, match="no room is left for"):
        run_shard(Squares(3), ShardNumber(1, 2), small_disk / "d")
    with pytest.raises(ShardError, match="no room is left for"):
        run_shard(Squares(3), ShardNumber(0, 1), small_disk / "other")
    (small_disk / "ballast").unlink()
    run_shard(Squares(3), ShardNumber(1, 2), small_disk / "d")
    fill_up(small_disk / "rest")
    with pytest.raises(ShardError, match="no room is left for"):
        merge_folder(small_disk / "d", MERGES)
    (small_disk / "rest").unlink()
    assert merge_folder(small_disk / "d", MERGES).exists()


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
