"""Signals that end a training after its current step, with a checkpoint, on all processes.

Ctrl-C (SIGINT), SIGTERM (Slurm's preemption, `torchrun` and `accelerate launch` when they are
stopped) and, in a job of Slurm, SIGUSR1 (`#SBATCH --signal=USR1@120`) are only noted at first.

One process may get a signal that others do not get, or one step later. So all agree after every
step, by a maximum over processes that travels on the CPU while the next step computes: nothing
waits for the device, and all see the same number after the same step.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from rich.console import Console

SAME_REQUEST_S = 3.0
"""Time in which further signals are the same request: a terminal sends Ctrl-C to the launcher and
to its processes, and the launcher hands it on."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a training to stop."""
    names = ["SIGINT", "SIGTERM"]
    if "SLURM_JOB_ID" in os.environ:
        names.append("SIGUSR1")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


class StopRequest:
    """What this process was told, and what all processes agreed on."""

    def __init__(self) -> None:
        self._received, self._since = 0, 0.0
        self._before: dict[int, Any] = {}
        self._group: Any = None
        self._pending: tuple[Any, torch.Tensor] | None = None

    @contextmanager
    def listening(self, num_processes: int) -> Iterator[StopRequest]:
        """Note signals while the block runs; only the main thread of a process gets any."""
        if num_processes > 1:
            self._group = torch.distributed.new_group(backend="gloo")
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._note) for one in stop_signals()}
        try:
            yield self
        finally:
            self._restore()

    def agreed(self, *, is_last: bool = False) -> int:
        """Number of the signal that some process had got before the last step, else 0.

        All processes must call this after every step.

        Args:
            is_last: Whether no step follows.
        """
        if self._group is None:
            return self._received
        found = 0
        if self._pending is not None:
            work, number = self._pending
            work.wait()
            self._pending, found = None, int(number)
        if not found and not is_last:
            number = torch.tensor(self._received)
            maximum = torch.distributed.ReduceOp.MAX
            work = torch.distributed.all_reduce(number, maximum, self._group, async_op=True)
            self._pending = work, number
        return found

    def _note(self, number: int, _: Any) -> None:
        """The first signal only requests a stop; a later one acts as if there were no handler."""
        if not self._received:
            self._received, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > SAME_REQUEST_S:
            self._restore()
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}


def end_stopped(number: int, step: int, *, is_main: bool = True) -> NoReturn:
    """End the process as its signal would have, after a checkpoint of `step` was saved.

    Args:
        number: Number of the signal.
        step: Number of steps that are done.
        is_main: Whether this process is the one of all that speaks.
    """
    message = f"stopped after step {step}; the same command again continues"
    if number == signal.SIGINT and is_main:
        raise KeyboardInterrupt(message)
    Console(stderr=True, highlight=False, quiet=not is_main).print(message, soft_wrap=True)
    raise SystemExit(128 + number)  # what shells and Slurm report of a process that a signal ended
