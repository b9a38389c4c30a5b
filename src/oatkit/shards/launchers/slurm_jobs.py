"""Jobs of Slurm, by way of submitit: `--on slurm:cluster.toml`.

The file has the parameters of submitit's `AutoExecutor`, such as

    slurm_partition = "gpu"
    gpus_per_node = 1
    timeout_min = 240

`cluster = "local"` runs the jobs as processes of this machine, to try a file out. This is the only
file that imports submitit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oatkit.errors import MissingExtraError, ShardError
from oatkit.shards.launchers.launcher import Task
from oatkit.shards.launchers.torch_nodes import TorchNodes, job_port

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

try:
    import submitit
except ImportError as error:
    raise MissingExtraError("slurm") from error

JOB_ERRORS = (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError)


class SlurmJobs:
    """Jobs of a cluster; see `Launcher`.

    Args:
        jobs: Jobs of submitit that have been sent.
    """

    def __init__(self, jobs: Sequence[Any]) -> None:
        self._jobs = jobs

    @classmethod
    def of(cls, tasks: Sequence[Task], settings: Path, folder: Path) -> SlurmJobs:
        """One job for each task.

        Args:
            tasks: What to run.
            settings: TOML file of what a job needs.
            folder: Where submitit keeps what jobs print.
        """
        parameters = _read(settings)
        with _refusals_explained(settings):
            executor = _executor(parameters, folder)
            return cls(executor.map_array(_Requeued(), list(tasks)))

    @classmethod
    def of_nodes(cls, nodes: TorchNodes, settings: Path, folder: Path) -> SlurmJobs:
        """One job on several machines; each starts the processes of its GPUs itself."""
        parameters = {"gpus_per_node": nodes.num_gpus, **_read(settings)}
        is_here = parameters.get("cluster") == "local"  # one machine has tasks in place of nodes
        sizes = (1, nodes.num_nodes) if is_here else (nodes.num_nodes, 1)
        parameters |= dict(zip(("nodes", "tasks_per_node"), sizes, strict=True))
        with _refusals_explained(settings):
            return cls([_executor(parameters, folder).submit(_Requeued(), _Node(nodes))])

    def poll(self) -> list[str | None]:
        return [why for job in self._jobs for why in _outcomes(job)]

    def stop(self) -> None:
        for job in self._jobs:
            if not job.done():
                job.cancel()


class _Requeued:
    """Runs a task, which submitit sends again when its machine is needed or its time is up."""

    def __call__(self, task: Callable[[], str]) -> str:
        return task()

    def checkpoint(self, task: Callable[[], str]) -> Any:
        return submitit.helpers.DelayedSubmission(self, task)


class _Node:
    """One machine of a job, which finds out which one it is."""

    def __init__(self, nodes: TorchNodes) -> None:
        self._nodes = nodes

    def __call__(self) -> str:
        job = submitit.JobEnvironment()
        head = "127.0.0.1" if job.cluster == "local" else job.hostnames[0]
        return self._nodes.task(job.global_rank, head, job_port(job.job_id))()


def _executor(parameters: dict[str, Any], folder: Path) -> Any:
    executor = submitit.AutoExecutor(folder, cluster=parameters.pop("cluster", "slurm"))
    executor.update_parameters(**parameters)
    return executor


def _outcomes(job: Any) -> list[str | None]:
    """How the tasks of a job stand."""
    if not job.done():
        return [None] * job.num_tasks
    try:
        return list(map(str, job.results()))
    except JOB_ERRORS as error:
        return [f"job {job.job_id}: {str(error).splitlines()[0]}"] * job.num_tasks


@contextmanager
def _refusals_explained(settings: Path) -> Iterator[None]:
    """Say in one sentence why jobs cannot be sent."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, NameError, OSError, *JOB_ERRORS) as error:
        said = " ".join(str(error).split())
        raise ShardError(f"no jobs can be sent as {settings} says: {said}") from error


def _read(settings: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(settings.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"--on names {settings}, which does not exist") from error
    except ValueError as error:
        raise ValueError(f"--on names {settings}, which is no TOML: {error}") from error
