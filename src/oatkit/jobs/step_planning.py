"""How many training steps fit into a given time, from a short trial that is thrown away."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from oatkit.nn.device import Device
from oatkit.train import TrainConfig, TrainingJob, read_log, train

TRIAL_STEPS = 20


def steps_within(
    job: TrainingJob, config: TrainConfig, minutes: float, device: Device = "auto"
) -> int:
    """Number of steps that take so many minutes, at the speed of the trial's later half.

    The trial trains the job's module, so that it is spent.
    """
    trial = replace(config, steps=TRIAL_STEPS, log_every=TRIAL_STEPS // 2)
    with tempfile.TemporaryDirectory() as folder:
        train(job, trial, Path(folder), device=device, show_progress=False)
        later_half = read_log(Path(folder))[-1]
    return max(1, round(minutes * 60 * later_half["samples_per_s"] / config.batch_size))
