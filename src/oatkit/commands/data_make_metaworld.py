"""`oatkit data make metaworld`: demonstrations of scripted experts, as a LeRobot dataset."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.shard_options import ShardFlag, run_as_shard
from oatkit.commands.text_output import print_lines
from oatkit.jobs.demonstration_shards import DemonstrationWork
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld, metaworld_job


@dataclass(frozen=True)
class MakeMetaWorld:
    """Make demonstrations with MetaWorld's scripted experts, as a LeRobot v3.0 dataset.

    Example:
        oatkit data make metaworld --tasks box-close door-open --episodes 10 --out out/metaworld
    """

    out: Path
    """Where to write the dataset."""
    demonstrations: Annotated[Demonstrations, arg(name="")] = Demonstrations()
    workers: int | None = None
    """Number of worker processes, by default one per core. It does not change the dataset."""
    shard: ShardFlag = None


def run(options: MakeMetaWorld, console: Console) -> int:
    if options.shard is not None:
        work = DemonstrationWork(metaworld_job(options.demonstrations), workers=options.workers)
        return run_as_shard(work, options.shard, options.out, console)
    folder = make_metaworld(
        options.out,
        options.demonstrations,
        workers=options.workers,
        show_progress=not console.quiet,
    )
    return print_made(folder, console)


def print_made(folder: Path, console: Console) -> int:
    """Say where the dataset is and what to do next; returns the exit code."""
    next_command = f"oatkit data info {shlex.quote(str(folder))}"
    print_lines(console, f"{folder} is ready", f"next: {next_command}")
    return 0
