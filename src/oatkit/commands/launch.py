"""`oatkit launch`: the shards of a command, or one training on several machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional, arg

from oatkit.commands.text_output import print_lines
from oatkit.jobs.shard_launch import launch


@dataclass(frozen=True)
class LaunchShards:
    """Run a command in shards on an engine and join what they wrote, or train on several machines.

    Example:
        oatkit launch --on local:4 -- policy eval out/policy --budgets 1 2 4 8 --out out/eval
        oatkit launch --on slurm:cluster.toml --shards 64 -- policy eval out/policy --out out/eval
        oatkit launch --on slurm:cluster.toml --nodes 2 --gpus 8 -- policy train
            --data out/metaworld --tokenizer out/oat-pow2 --out out/policy
    """

    command: Annotated[Positional[tuple[str, ...]], arg(metavar="-- COMMAND ...")]
    """A command that takes --shard, or a training with --nodes; with its --out."""
    on: str = "local:2"
    """Engine: local:PROCESSES, slurm:FILE.toml (by submitit) or ray:ADDRESS (auto, local or
    HOST:PORT)."""
    shards: int | None = None
    """Number of shards; on local as many as processes by default."""
    num_cpus: float = 1
    """Cores that a shard needs (Ray)."""
    num_gpus: float = 0
    """GPUs that a shard needs (Ray)."""
    nodes: int | None = None
    """Machines that train together, instead of shards: `torchrun` starts on each (local, Slurm)."""
    gpus: int = 1
    """GPUs of each of these machines, and so processes; processes alone where there are no GPUs."""
    config: Annotated[Path | None, arg(metavar="FILE.yaml")] = None
    """Accelerate's settings for that training, such as those of FSDP; its launcher then takes the
    place of `torchrun`."""


def run(options: LaunchShards, console: Console) -> int:
    quiet = console.quiet or not console.is_terminal or options.nodes is not None
    with Progress(console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("units", total=None)
        path = launch(
            options.command,
            on=options.on,
            shards=options.shards,
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
            nodes=options.nodes,
            gpus=options.gpus,
            config=options.config,
            progress=lambda done, total: bar.update(task, completed=done, total=total or None),
        )
    print_lines(console, f"wrote {path}")
    return 0
