"""A small job to train, and how its runs are compared."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train import TrainConfig, train
from oatkit.train.training_job import Spread

ROOT = Path(__file__).parents[2]
CONFIG = TrainConfig(
    steps=8,
    batch_size=16,
    learning_rate=1e-2,
    schedule="cosine",
    warmup_steps=2,
    ema=0.9,
    weight_decay=0.01,
    checkpoint_every=3,
    log_every=2,
    evaluate_every=4,
)


class Regression:
    """A small job with noise in its loss and a buffer that follows the data."""

    def __init__(self, fail_at: int | None = None, *, scale: float = 1.0) -> None:
        torch.manual_seed(0)
        self.module: nn.Module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.module.register_buffer("seen", torch.zeros(3))
        self._inputs = torch.randn(100, 3)
        self._fail_at, self._scale = fail_at, scale
        self.steps = 0
        self.evaluated_in: list[bool] = []
        self.num_samples = 100
        self._batch: Tensor | None = None

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        return (self._inputs[indices],)

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        (inputs,) = batch
        self._batch = inputs
        noisy = inputs + 0.1 * random.uniform(3)
        errors = (self.module(noisy).squeeze(1) - inputs.sum(dim=1)).square()
        loss = errors.mean()
        parts = {
            "error": loss,
            "positive": torch.where(inputs[:, 0] > 0, errors, math.nan),
            "negative": torch.where(inputs[:, 0] > 0, math.nan, errors),
            "never": torch.full_like(errors, math.nan),
        }
        scale = math.nan if self.steps == self._fail_at else self._scale
        return TrainingLoss(loss * scale, parts)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        self.steps += 1
        assert self._batch is not None
        self.module.seen.lerp_(gather(self._batch).mean(dim=0), 0.1)

    def evaluate(self, spread: Spread) -> dict[str, float]:
        self.evaluated_in.append(torch.is_autocast_enabled("cpu"))
        parameters = list(self.module.parameters())
        sizes = spread(lambda number: parameters[number].abs().sum(), len(parameters))
        return {"size": float(sum(sizes))}


def trained(out: Path, config: TrainConfig = CONFIG) -> dict[str, Tensor]:
    job = Regression()
    train(job, config, out, show_progress=False)
    return {k: v.clone() for k, v in job.module.state_dict().items()}


def assert_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def assert_same_logs(*folders: Path) -> None:
    """All that was logged but the speed, to rounding."""
    logs = [
        [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        for folder in folders
    ]
    for rows in zip(*logs, strict=True):
        times = ("samples_per_s", "waiting_share")
        known = [{k: v for k, v in row.items() if k not in times} for row in rows]
        assert all(row == pytest.approx(known[0], rel=1e-4) for row in known)


SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.train.regression import CONFIG, Regression
from oatkit.train import train
from safetensors.torch import save_file
config = replace(CONFIG, steps=int(sys.argv[2]), checkpoint_every=2, batch_size=16)
job = Regression()
train(job, config, Path(sys.argv[1]), show_progress=False)
save_file(job.module.state_dict(), Path(sys.argv[1]) / "end.safetensors")
"""


SOAP_SCRIPT = SCRIPT.replace("batch_size=16", "batch_size=16, optimizer='soap'")


def start(
    out: Path, steps: int, script: str = SCRIPT, more: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(out), str(steps)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | dict(more or {}),
    )


def start_two(out: Path, steps: int, script: str = SCRIPT) -> list[subprocess.Popen[str]]:
    """Two processes that train together, without a launcher that would stop one for the other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    shared |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return [start(out, steps, script, shared | {"RANK": rank, "LOCAL_RANK": rank}) for rank in "01"]


def end(process: subprocess.Popen[str]) -> int:
    """Wait for a process; gives its return code and shows what it said if that is no signal."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode <= 0, errors
    return process.returncode
