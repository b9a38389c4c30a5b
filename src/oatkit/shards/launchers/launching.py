"""Run tasks on an engine and show how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oatkit.errors import ShardError, unknown_name
from oatkit.shards.launchers.launcher import Launcher, Task
from oatkit.shards.launchers.local_processes import LocalProcesses
from oatkit.shards.launchers.torch_nodes import TorchNodes
from oatkit.shards.shard_folder import PLAN, ShardFolder

ENGINES = ("local", "slurm", "ray")
POLL_S = 0.5

Progress = Callable[[int, int], None]
"""Takes how many units are finished, and how many there are."""


@dataclass(frozen=True)
class Engine:
    """Where tasks run.

    Attributes:
        kind: One of `ENGINES`.
        where: Number of processes, file of Slurm's settings, or address of Ray.
        num_cpus: Cores that a task needs (Ray).
        num_gpus: GPUs that a task needs (Ray).
    """

    kind: str
    where: str
    num_cpus: float = 1
    num_gpus: float = 0

    def __post_init__(self) -> None:
        on = f"{self.kind}:{self.where}" if self.where else self.kind
        if self.kind not in ENGINES:
            raise ValueError(f"--on: {unknown_name('engine', self.kind, ENGINES)}")
        if not self.where:
            raise ValueError(
                f"--on is {on!r}, expected local:PROCESSES, slurm:FILE.toml or ray:ADDRESS"
            )
        if self.kind == "local" and not self.where.isdigit():
            raise ValueError(f"--on is {on!r}, expected a number of processes such as local:4")

    @classmethod
    def parse(cls, on: str, *, num_cpus: float = 1, num_gpus: float = 0) -> Engine:
        """The engine of a text such as `local:4`."""
        kind, _, where = on.partition(":")
        return cls(kind, where, num_cpus, num_gpus)

    def num_shards(self, asked: int | None) -> int:
        """The number of shards; as many as processes on `local`, where none is asked for."""
        count = asked if asked is not None or self.kind != "local" else int(self.where)
        if count is None or count < 1:
            raise ValueError(
                f"--shards is {count}, expected 1 or more for {self.kind}:{self.where}"
            )
        return count

    def start(self, tasks: Sequence[Task], out: Path) -> Launcher:
        """Start tasks, which have nothing to do with each other."""
        if self.kind == "local":
            return LocalProcesses(tasks, int(self.where))
        if self.kind == "slurm":
            from oatkit.shards.launchers.slurm_jobs import SlurmJobs

            return SlurmJobs.of(tasks, Path(self.where), out / "slurm")
        from oatkit.shards.launchers.ray_tasks import RayTasks

        return RayTasks(tasks, self.where, num_cpus=self.num_cpus, num_gpus=self.num_gpus)

    def start_nodes(self, nodes: TorchNodes, out: Path) -> Launcher:
        """Start one training on several machines, or as if this one were several."""
        if self.kind == "local":
            return LocalProcesses(nodes.here(), nodes.num_nodes)
        if self.kind == "slurm":
            from oatkit.shards.launchers.slurm_jobs import SlurmJobs

            return SlurmJobs.of_nodes(nodes, Path(self.where), out / "slurm")
        raise ValueError(f"--nodes is for local and slurm, not for {self.kind}: see --on")


def wait_for(
    launcher: Launcher,
    what: str,
    then: str,
    progress: Callable[[], None] = lambda: None,
    *,
    together: bool = False,
) -> None:
    """Wait until all tasks have ended; what failed is told when the others are done.

    Args:
        launcher: What runs them.
        what: What a task is called.
        then: What is to be known when one failed.
        progress: Called again and again meanwhile, and at the end.
        together: Whether none can go on without the others, which are ended when one fails.
    """
    try:
        while None in (found := launcher.poll()):
            if together and any(found):
                break
            progress()
            time.sleep(POLL_S)
    finally:
        launcher.stop()
    failed = [f"{what} {index} ({why})" for index, why in enumerate(found) if why]
    if failed:
        raise ShardError(
            f"{len(failed)} of {len(found)} {what}s failed: {'; '.join(failed[:3])}; {then}"
        )
    progress()


def finished_units(out: Path) -> tuple[int, int]:
    """How many units of a folder are finished, and how many there are; 0 before there is a plan."""
    if not (out / PLAN).is_file():
        return 0, 0
    folder = ShardFolder(out)
    return sum(map(folder.has, folder.plan.units)), len(folder.plan.units)
