"""Demonstrations in shards: the same dataset as in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.jobs.demonstration_shards import DemonstrationWork
from oatkit.jobs.metaworld_demonstrations import Demonstrations
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard

pytest.importorskip("metaworld", reason="needs the extra metaworld")


def test_every_file_is_that_of_one_run(demos: Path, tmp_path: Path) -> None:
    wanted = Demonstrations(tasks=("reach", "door-close"), episodes=3)
    for index in (1, 0):
        run_shard(DemonstrationWork(wanted, workers=1), ShardNumber(index, 2), tmp_path)
    made = merge_folder(tmp_path, MERGES)
    files = sorted(path.relative_to(demos) for path in demos.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    for file in files:
        assert (made / file).read_bytes() == (demos / file).read_bytes(), file
    assert merge_folder(tmp_path, MERGES) == made, "merging again is fine"
