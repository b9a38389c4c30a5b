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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oatkit.errors import MissingExtraError, ShardError
from oatkit.shards.launchers.launcher import Words, run_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

try:
    import submitit
except ImportError as error:
    raise MissingExtraError("slurm") from error


class SlurmJobs:
    """One job for each command; see `Launcher`.

    Args:
        commands: What to run.
        settings: TOML file of what a job needs.
        folder: Where submitit keeps what jobs print.
    """

    def __init__(self, commands: Sequence[Words], settings: Path, folder: Path) -> None:
        parameters = _read(settings)
        try:
            executor = submitit.AutoExecutor(folder, cluster=parameters.pop("cluster", "slurm"))
            executor.update_parameters(**parameters)
            self._jobs = executor.map_array(run_words, [list(words) for words in commands])
        except (RuntimeError, TypeError, ValueError, NameError) as error:
            raise ShardError(f"no jobs can be sent as {settings} says: {error}") from error

    def poll(self) -> list[str | None]:
        return [_outcome(job) if job.done() else None for job in self._jobs]

    def stop(self) -> None:
        for job in self._jobs:
            if not job.done():
                job.cancel()


def _outcome(job: Any) -> str:
    try:
        return str(job.result())
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError) as error:
        return f"job {job.job_id}: {str(error).splitlines()[0]}"


def _read(settings: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(settings.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"--on names {settings}, which does not exist") from error
    except ValueError as error:
        raise ValueError(f"--on names {settings}, which is no TOML: {error}") from error
