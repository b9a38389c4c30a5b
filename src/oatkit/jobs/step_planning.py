"""How long training or fitting takes and how much of it a given time holds, from a short trial that
is thrown away."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from oatkit.nn.device import Device
from oatkit.storage.atomic_write import atomic_write
from oatkit.train import TrainConfig, TrainingJob, read_log, train
from oatkit.train.train_config import asked_settings

TRIAL_STEPS = 20
TRIAL_LOGGED = 2
"""Number of steps that are timed together in a trial."""
TRIAL_CHUNKS = 2048
"""Number of chunks that a trial is fitted to."""
PLAN = "minutes.json"
"""File of a run that was given minutes: the steps that were found for them."""


def steps_within(
    job: TrainingJob, config: TrainConfig, minutes: float, device: Device = "auto"
) -> int:
    """Number of steps that take so many minutes; see `seconds_per_step`."""
    return max(1, round(60 * minutes / seconds_per_step(job, config, device)))


def seconds_per_step(job: TrainingJob, config: TrainConfig, device: Device = "auto") -> float:
    """The usual time of a training step, in the trial's later half: what stopped the machine for a
    moment does not count.

    The trial trains the job's module, so that it is spent.
    """
    trial = replace(config, steps=TRIAL_STEPS, log_every=TRIAL_LOGGED)
    with tempfile.TemporaryDirectory() as folder:
        train(job, trial, Path(folder), device=device, show_progress=False)
        rows = read_log(Path(folder))
    later_half = [row["samples_per_s"] for row in rows if row["step"] > TRIAL_STEPS // 2]
    return config.batch_size / median(later_half)


def fitting_seconds(fit: Callable[[int], None], num_chunks: int) -> float:
    """Time of fitting to so many chunks, which grows with their number at most.

    Args:
        fit: Fits something that is thrown away to so many chunks.
        num_chunks: Number of chunks in the end.
    """
    trial = min(num_chunks, TRIAL_CHUNKS)
    began = time.perf_counter()
    fit(trial)
    return (time.perf_counter() - began) * num_chunks / trial


def chunks_within(fit: Callable[[int], None], num_chunks: int, minutes: float) -> int:
    """Number of chunks that are fitted to in so many minutes, trial included, as far as that has
    not taken them all; see `fitting_seconds`."""
    require_minutes(minutes)
    if num_chunks <= TRIAL_CHUNKS:
        return num_chunks
    seconds = fitting_seconds(fit, num_chunks)
    spent = seconds * TRIAL_CHUNKS / num_chunks
    affordable = int(num_chunks * (60 * minutes - spent) / seconds)
    return min(max(affordable, TRIAL_CHUNKS), num_chunks)


def require_minutes(minutes: float) -> None:
    """Refuse a time that is none."""
    if not minutes > 0:
        raise ValueError(f"--minutes is {minutes}, expected more than 0")


def planned_steps(
    minutes: float,
    train: TrainConfig | Mapping[str, Any] | None,
    out: str | os.PathLike[str] | None,
    count: Callable[[], int],
) -> int:
    """Number of steps of a run that was given minutes, decided once: a run that was stopped goes on
    to the same end.

    Args:
        minutes: Training time.
        train: Recipe that was asked for, which must not say the steps too.
        out: Folder of the run, where the number is kept; None keeps it nowhere.
        count: Counts the steps that fit, see `steps_within`.
    """
    require_minutes(minutes)
    if asked_settings(train).get("steps") is not None:
        raise ValueError("give --steps or --minutes, not both")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--minutes is for one process, whose speed it measures: give --steps")
    plan = None if out is None else Path(out) / PLAN
    if plan is not None and plan.exists():
        found = json.loads(plan.read_text())
        if found["minutes"] == minutes:
            return int(found["steps"])
    steps = count()
    if plan is not None:
        plan.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(plan) as aside:
            aside.write_text(json.dumps({"minutes": minutes, "steps": steps}) + "\n")
    return steps
