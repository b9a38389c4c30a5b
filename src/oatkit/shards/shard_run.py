"""Run one shard of some work, and join the records of all shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oatkit.errors import ShardError, unknown_name
from oatkit.shards.full_disk import full_disk_explained
from oatkit.shards.shard_folder import ShardFolder, ShardPlan
from oatkit.shards.shard_number import ShardNumber
from oatkit.shards.work import Work

Merge = Callable[[ShardPlan, dict[str, Any], Path], Path]
"""Joins the results of all units, by key, into a file of the folder; returns its path."""
Report = Callable[[str, int, int], None]
"""Takes the key of a unit that ended, how many of the shard ended, and how many it has."""


def run_shard(
    work: Work, shard: ShardNumber, path: Path, *, report: Report | None = None
) -> tuple[int, int]:
    """Run the units of a shard that have no record; returns how many, and how many had one.

    Args:
        work: What to run.
        shard: Which of its units.
        path: Folder that all shards share.
        report: Called whenever a unit has ended.
    """
    own = shard.of(work.units())
    with full_disk_explained(path), ExitStack() as ending:
        folder = ShardFolder.begin(path, work)
        waiting = [key for key in own if not folder.has(key)]
        num_done = len(own) - len(waiting)
        results = iter(work.run(waiting, path) if waiting else ())
        ending.callback(getattr(results, "close", lambda: None))
        for number, (key, result) in enumerate(results, num_done + 1):
            folder.write(key, result)
            if report is not None:
                report(key, number, len(own))
    left = [key for key in waiting if not folder.has(key)]
    if left:
        raise ShardError(f"the work ended without a result of {', '.join(left[:8])}")
    return len(waiting), num_done


def merge_folder(path: Path, merges: Mapping[str, Callable[[], Merge]]) -> Path:
    """Join the records of a folder; returns the path of what was written.

    Args:
        path: Folder that the shards wrote to.
        merges: Name of a work to what gives the function that joins its results.
    """
    folder = ShardFolder(path)
    if folder.plan.work not in merges:
        raise ShardError(f"{path}: {unknown_name('work', folder.plan.work, merges)}")
    with full_disk_explained(path):
        return merges[folder.plan.work]()(folder.plan, folder.results(), path)
