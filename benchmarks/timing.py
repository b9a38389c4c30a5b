"""How long jobs take and trainings took, and how fast the machine multiplies matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch

from oatkit.nn.device import read_clock, resolve_device
from oatkit.policies import Policy
from oatkit.tokenizers import ActionTokenizer
from oatkit.train import read_log, training_seconds

Job = Callable[[], object]


def seconds(job: Job) -> float:
    """Time of one run."""
    device = resolve_device()
    start = read_clock(device)
    job()
    return read_clock(device) - start


def trained_seconds(folder: Path, trained: Policy | ActionTokenizer) -> float | None:
    """How long an artifact was trained, to a tenth; None for one that was fitted."""
    settings = trained.extras.get("train")
    if not settings:
        return None
    return round(training_seconds(read_log(folder), settings["batch_size"]), 1)


def median_ms_in_turns(
    jobs: Mapping[str, Job], rounds: int, *, warm_up: int = 1
) -> dict[str, float]:
    """Median milliseconds of each job.

    Every round runs all jobs, so that other work on the machine slows all of them down alike.

    Args:
        jobs: Jobs by name.
        rounds: Number of rounds that count.
        warm_up: Number of rounds before them, which do not count.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(warm_up + rounds):
        for name, job in jobs.items():
            times[name].append(1e3 * seconds(job))
    return {name: median(found[warm_up:]) for name, found in times.items()}


def matmul_gflops() -> float:
    """Billions of operations a second in the fastest of several 2048 x 2048 products."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = min(seconds(lambda: a @ b) for _ in range(10))
    return 2 * 2048**3 / best / 1e9
