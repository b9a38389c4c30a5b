"""`oatkit data make robosuite`: demonstrations of robosuite's tasks, as a LeRobot dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.data_make_metaworld import print_made
from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.jobs.demonstration_shards import DemonstrationWork
from oatkit.jobs.robosuite_demonstrations import (
    RobosuiteDemonstrations,
    make_robosuite,
    robosuite_job,
)


@dataclass(frozen=True)
class MakeRobosuite:
    """Make demonstrations of robosuite's tasks with scripted experts, as a LeRobot v3.0 dataset.

    Example:
        oatkit data make robosuite --tasks lift can stack square door --out out/robosuite
        oatkit data make robosuite --from-demos demo.hdf5 --episodes 200 --out out/human
    """

    out: Path
    """Where to write the dataset."""
    demonstrations: Annotated[RobosuiteDemonstrations, arg(name="")] = RobosuiteDemonstrations()
    workers: int | None = None
    """Number of worker processes, by default one per core. It does not change the dataset."""
    shard: ShardFlag = None


def run(options: MakeRobosuite, console: Console) -> int:
    if options.shard is not None:
        work = DemonstrationWork(robosuite_job(options.demonstrations), workers=options.workers)
        return run_as_shard(work, options.shard, options.out, console)
    folder = make_robosuite(
        options.out,
        options.demonstrations,
        workers=options.workers,
        show_progress=not console.quiet,
    )
    return print_made(folder, console)
