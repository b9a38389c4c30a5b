"""Run the shards of a command on an engine, show how far they are, and join their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from oatkit.errors import ShardError, unknown_name
from oatkit.shards.launchers.launcher import Launcher, Words
from oatkit.shards.launchers.local_processes import LocalProcesses
from oatkit.shards.shard_folder import PLAN, ShardFolder
from oatkit.shards.shard_run import Merge, merge_folder

ENGINES = ("local", "slurm", "ray")
POLL_S = 0.5

Progress = Callable[[int, int], None]
"""Takes how many units are finished, and how many there are."""


def launch(
    words: Words,
    merges: Mapping[str, Callable[[], Merge]],
    *,
    on: str = "local:2",
    shards: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    progress: Progress | None = None,
) -> Path:
    """Run a command in shards and join what they wrote; returns the path of the result.

    Args:
        words: The command without `oatkit` and `--shard`, with an `--out` for the folder.
        merges: What joins records, by the name of the work.
        on: Engine: `local:4` for processes, `slurm:cluster.toml`, or `ray:auto`.
        shards: Number of shards; as many as processes on `local` by default.
        num_cpus: Cores that a shard needs (Ray).
        num_gpus: GPUs that a shard needs (Ray).
        progress: Called while the shards run.
    """
    out = _out(words)
    engine, _, where = on.partition(":")
    if engine not in ENGINES or not where:
        raise ValueError(
            f"--on is {on!r}, expected local:PROCESSES, slurm:FILE.toml or ray:ADDRESS"
            if engine in ENGINES
            else f"--on: {unknown_name('engine', engine, ENGINES)}"
        )
    if engine == "local" and not where.isdigit():
        raise ValueError(f"--on is {on!r}, expected a number of processes such as local:4")
    count = shards if shards is not None else int(where) if engine == "local" else None
    if count is None or count < 1:
        raise ValueError(f"--shards is {count}, expected 1 or more for {on}")
    commands = [[*words, "--shard", f"{index}/{count}"] for index in range(count)]
    launcher: Launcher
    if engine == "local":
        launcher = LocalProcesses(commands, int(where))
    elif engine == "slurm":
        from oatkit.shards.launchers.slurm_jobs import SlurmJobs

        launcher = SlurmJobs(commands, Path(where), out / "slurm")
    else:
        from oatkit.shards.launchers.ray_tasks import RayTasks

        launcher = RayTasks(commands, where, num_cpus=num_cpus, num_gpus=num_gpus)
    _wait(launcher, out, progress)
    return merge_folder(out, merges)


def _out(words: Words) -> Path:
    if "--shard" in words:
        raise ValueError("leave --shard out: launch gives each shard its own")
    if "--out" not in words[:-1]:
        raise ValueError("name the folder of the shards with --out in the command after --")
    return Path(words[list(words).index("--out") + 1])


def _wait(launcher: Launcher, out: Path, progress: Progress | None) -> None:
    """Wait until all shards have ended; what failed is told when the others are done."""
    try:
        while None in (found := launcher.poll()):
            if progress is not None:
                progress(*finished_units(out))
            time.sleep(POLL_S)
    finally:
        launcher.stop()
    failed = [f"shard {index} ({why})" for index, why in enumerate(found) if why]
    if failed:
        raise ShardError(
            f"{len(failed)} of {len(found)} shards failed: {'; '.join(failed[:3])}; finished units "
            "are kept, the same command again goes on"
        )
    if progress is not None:
        progress(*finished_units(out))


def finished_units(out: Path) -> tuple[int, int]:
    """How many units of a folder are finished, and how many there are; 0 before there is a plan."""
    if not (out / PLAN).is_file():
        return 0, 0
    folder = ShardFolder(out)
    return sum(map(folder.has, folder.plan.units)), len(folder.plan.units)
