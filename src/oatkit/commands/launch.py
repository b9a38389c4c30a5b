"""`oatkit launch`: the shards of a command on this machine, on Slurm or on Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional, arg

from oatkit.commands.text_output import print_lines
from oatkit.jobs.shard_table import MERGES
from oatkit.shards.launchers.launching import launch


@dataclass(frozen=True)
class LaunchShards:
    """Run a command in shards on an engine, and join what they wrote.

    Example:
        oatkit launch --on local:4 -- policy eval out/policy --budgets 1 2 4 8 --out out/eval
        oatkit launch --on slurm:cluster.toml --shards 64 -- policy eval out/policy --out out/eval
    """

    command: Annotated[Positional[tuple[str, ...]], arg(metavar="-- COMMAND ...")]
    """A command that takes --shard, with its --out."""
    on: str = "local:2"
    """Engine: local:PROCESSES, slurm:FILE.toml (by submitit) or ray:ADDRESS (auto, local or
    HOST:PORT)."""
    shards: int | None = None
    """Number of shards; on local as many as processes by default."""
    num_cpus: float = 1
    """Cores that a shard needs (Ray)."""
    num_gpus: float = 0
    """GPUs that a shard needs (Ray)."""


def run(options: LaunchShards, console: Console) -> int:
    name = " ".join(options.command[:3])
    if not any(name.startswith(known) for known in MERGES):
        raise ValueError(f"{name!r} is not cut into shards; these are: {', '.join(MERGES)}")
    quiet = console.quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("units", total=None)
        path = launch(
            options.command,
            MERGES,
            on=options.on,
            shards=options.shards,
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
            progress=lambda done, total: bar.update(task, completed=done, total=total or None),
        )
    print_lines(console, f"wrote {path}")
    return 0
