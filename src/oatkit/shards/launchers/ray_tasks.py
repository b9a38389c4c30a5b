"""Tasks of a Ray cluster: `--on ray:auto`, or `ray:HOST:PORT`, or `ray:local` for this machine.

A task whose worker is lost runs again on another and goes on, because finished units are skipped.
This is the only file that imports ray.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from oatkit.errors import MissingExtraError, ShardError
from oatkit.shards.launchers.launcher import Task

try:
    import ray
except ImportError as error:
    raise MissingExtraError("ray") from error

MAX_RETRIES = 3
"""How often a task runs again whose worker is lost."""
KNOCK_S = 10.0
"""Seconds for a cluster's first machine to take a connection."""


class RayTasks:
    """Tasks of a cluster; see `Launcher`.

    Args:
        tasks: What to run.
        address: Address of a cluster, "auto" for the one of this machine, "local" to start one.
        num_cpus: Cores that a task needs.
        num_gpus: GPUs that a task needs.
    """

    def __init__(
        self, tasks: Sequence[Task], address: str, *, num_cpus: float = 1, num_gpus: float = 0
    ) -> None:
        try:
            _knock(address)
            ray.init(address, ignore_reinit_error=True, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            said = str(error).splitlines()[0]
            raise ShardError(f"no Ray cluster answers at {address!r} (--on): {said}") from error
        run = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=MAX_RETRIES)(_run)
        self._tasks = [run.remote(task) for task in tasks]

    def poll(self) -> list[str | None]:
        ready, _ = ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
        return [_outcome(task) if task in ready else None for task in self._tasks]

    def stop(self) -> None:
        for task in self._tasks:
            ray.cancel(task, force=True)
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise at once where nobody listens, for which Ray itself takes minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if address not in ("auto", "local") and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()


def _run(task: Task) -> str:
    return task()


def _outcome(task: object) -> str:
    try:
        return str(ray.get(task))
    except ray.exceptions.RayError as error:
        return str(error).splitlines()[0]
