"""Reading ahead changes nothing but who waits."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.train.prefetch import read_ahead

PLAN = [np.array([3, 1]), np.array([0]), np.array([2, 2, 5])]


def read(indices: np.ndarray) -> tuple[Tensor, ...]:
    return torch.from_numpy(indices) * 10, torch.full((len(indices),), os.getpid())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_come_in_the_order_of_the_plan(num_workers: int) -> None:
    found = list(read_ahead(read, PLAN, num_workers))
    for (values, _), indices in zip(found, PLAN, strict=True):
        assert values.tolist() == (10 * indices).tolist()
    processes = {int(p) for _, batch in found for p in batch}
    assert (os.getpid() in processes) == (num_workers == 0)


def test_an_error_in_a_worker_is_told() -> None:
    def broken(indices: np.ndarray) -> tuple[Tensor, ...]:
        raise ValueError("frame 7 is missing")

    with pytest.raises(ValueError, match="frame 7 is missing"):
        list(read_ahead(broken, PLAN, 1))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_survives_the_signal_that_stops_a_training(number: signal.Signals) -> None:
    """Slurm sends it to all processes: the steps until the checkpoint still need their batches."""
    batches = read_ahead(read, [np.array([3])] * 20, 1)
    _, worker = next(batches)
    os.kill(int(worker), number)
    time.sleep(0.2)
    assert [int(one) for _, one in batches] == [int(worker)] * 19
