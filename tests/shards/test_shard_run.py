from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardNumber, merge_folder, run_shard
from tests.shards.toy_work import MERGES, Squares


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_any_number_of_shards_gives_the_same_bytes(count: int, tmp_path: Path) -> None:
    run_shard(Squares(), ShardNumber(0, 1), tmp_path / "one")
    expected = merge_folder(tmp_path / "one", MERGES).read_bytes()
    for index in reversed(range(count)):
        run_shard(Squares(), ShardNumber(index, count), tmp_path / "many")
    assert merge_folder(tmp_path / "many", MERGES).read_bytes() == expected


def test_a_shard_that_was_stopped_goes_on(tmp_path: Path) -> None:
    stopped = Squares(stop_at="n/6")
    with pytest.raises(KeyboardInterrupt):
        run_shard(stopped, ShardNumber(0, 2), tmp_path)
    assert stopped.ran == ["n/0", "n/2", "n/4"]
    again, seen = Squares(), []
    report = lambda *seen_now: seen.append(seen_now)  # noqa: E731
    assert run_shard(again, ShardNumber(0, 2), tmp_path, report=report) == (2, 3)
    assert again.ran == ["n/6", "n/8"]
    assert seen == [("n/6", 4, 5), ("n/8", 5, 5)]
    assert run_shard(Squares(), ShardNumber(0, 2), tmp_path) == (0, 5)


def test_the_number_of_shards_may_change_meanwhile(tmp_path: Path) -> None:
    run_shard(Squares(), ShardNumber(1, 3), tmp_path)
    for index in range(2):
        run_shard(Squares(), ShardNumber(index, 2), tmp_path)
    assert merge_folder(tmp_path, MERGES).exists()


def test_a_merge_before_the_end_names_what_is_missing(tmp_path: Path) -> None:
    run_shard(Squares(4), ShardNumber(0, 2), tmp_path)
    with pytest.raises(ShardError, match="lacks 2 of 4 units: n/1, n/3; run the shards"):
        merge_folder(tmp_path, MERGES)


def test_a_work_that_nothing_joins(tmp_path: Path) -> None:
    run_shard(Squares(1), ShardNumber(0, 1), tmp_path)
    with pytest.raises(ShardError, match="unknown work 'squares'"):
        merge_folder(tmp_path, {})


def test_a_work_that_forgets_a_unit(tmp_path: Path) -> None:
    class Forgetful(Squares):
        def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
            yield from super().run(keys[1:], folder)

    with pytest.raises(ShardError, match="without a result of n/0"):
        run_shard(Forgetful(), ShardNumber(0, 1), tmp_path)
