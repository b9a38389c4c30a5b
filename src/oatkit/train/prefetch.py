"""Batches read ahead of the steps that need them, in worker processes.

Which samples a step holds follows from its number alone, so reading ahead changes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from oatkit.train.stop_signals import stop_signals

Read = Callable[[NDArray[np.int64]], tuple[Tensor, ...]]


class _Batches(Dataset[tuple[Tensor, ...]]):
    def __init__(self, read: Read) -> None:
        self._read = read

    def __getitem__(self, indices: Any) -> tuple[Tensor, ...]:
        return self._read(indices)


def read_ahead(
    read: Read, plan: Iterable[NDArray[np.int64]], num_workers: int
) -> Iterator[tuple[Tensor, ...]]:
    """The batches of a plan, in its order.

    Args:
        read: Function that gives the samples at some indices.
        plan: Indices of the samples of every batch.
        num_workers: Number of processes that read; 0 reads in this one, when a batch is needed.
    """
    if num_workers == 0:
        return (read(indices) for indices in plan)
    loader = DataLoader(
        _Batches(read),
        batch_size=None,
        sampler=plan,
        num_workers=num_workers,
        worker_init_fn=_survive_one_stop,
    )
    return iter(loader)


def _survive_one_stop(_: int) -> None:
    """Leave the signals that stop a training to the parent process, which saves a checkpoint first.

    Slurm sends SIGTERM to all processes, and a worker that died of it would fail the step. A second
    SIGTERM is the parent's, when it ends, and is obeyed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for one in set(stop_signals()) - {signal.SIGINT}:
        signal.signal(one, lambda number, _: signal.signal(number, signal.SIG_DFL))
