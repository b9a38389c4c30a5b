"""Tasks of a dataset of demonstrations as units of work.

The episodes of a task are its first successful attempts, and which those are is known only when
they have been made: so a unit is a task with all its episodes, not one episode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from oatkit.jobs.demonstration_attempts import Attempts
from oatkit.jobs.demonstration_job import assemble_dataset, make_attempts
from oatkit.jobs.metaworld_demonstrations import Demonstrations, metaworld_job
from oatkit.shards import ShardPlan
from oatkit.storage.records import record_from_json


class DemonstrationWork:
    """The tasks of a dataset; see `oatkit.shards.Work`.

    Args:
        wanted: What decides the dataset.
        workers: Number of worker processes; one per core by default.
    """

    name = "data make metaworld"

    def __init__(self, wanted: Demonstrations, *, workers: int | None = None) -> None:
        self._wanted = wanted
        self._job = metaworld_job(wanted)
        self._workers = workers or os.cpu_count() or 1
        self.settings: dict[str, Any] = self._job.plan
        self.facts: dict[str, Any] = {"wanted": asdict(wanted)}

    def units(self) -> Sequence[str]:
        return self._job.wanted.tasks

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for task in keys:
            job = metaworld_job(replace(self._wanted, tasks=(task,)))
            attempts = Attempts(folder, (task,), self._wanted.episodes)
            make_attempts(job, folder, attempts, self._workers, lambda _: None)
            yield task, {"successes": attempts.successes(task)}


def merge_demonstrations(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join attempts into the dataset that `oatkit data make metaworld` writes."""
    wanted = record_from_json(Demonstrations, plan.facts["wanted"])
    job = metaworld_job(wanted)
    return assemble_dataset(job, folder, Attempts(folder, job.wanted.tasks, wanted.episodes))
