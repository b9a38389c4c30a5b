"""What a launcher does: start tasks somewhere, say which have ended, and stop them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from oatkit.shards.shard_number import ShardNumber
from oatkit.shards.shard_run import run_shard
from oatkit.shards.work import Work

LIBRARY = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
ERROR = "error: "
"""How the sentence begins that a command of oatkit ends with when something went wrong."""

Words = Sequence[str]
"""The words of an `oatkit` command, without `oatkit`."""


class Started(Protocol):
    """A process of this machine, as `subprocess.Popen` is one."""

    def poll(self) -> int | None:
        """The exit code; None while it runs."""

    def terminate(self) -> None:
        """Ask the process to end."""

    def wait(self) -> int:
        """Wait for the end; gives the exit code."""


class Task(Protocol):
    """Something to run on an engine; it can be pickled."""

    def __call__(self) -> str:
        """Run to the end; gives "" or what went wrong."""

    def start(self, errors: IO[str]) -> Started:
        """Start on this machine, with a file that has a name for what is said of errors."""


class Launcher(Protocol):
    """Tasks that run somewhere.

    A launcher is made with the tasks, which it starts at once or as room permits.
    """

    def poll(self) -> list[str | None]:
        """How each task stands: None while it waits or runs, "" when it has ended well, else the
        reason why it has not."""

    def stop(self) -> None:
        """End what is still running."""


@dataclass(frozen=True)
class CommandTask:
    """A module that runs in a Python process of its own.

    Attributes:
        words: What follows `python` on the command line.
        is_shown: Whether what it prints is shown.
        environment: Variables that only it has.
        ending: Signal that it gets when whoever started it is gone.
    """

    words: tuple[str, ...]
    is_shown: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    ending: signal.Signals = signal.SIGKILL

    @classmethod
    def of(cls, words: Words) -> CommandTask:
        """The task of an `oatkit` command."""
        return cls(("-m", "oatkit.cli", *words))

    def __call__(self) -> str:
        with tempfile.NamedTemporaryFile("w+") as errors:
            return outcome(self.start(errors).wait(), errors)

    def start(self, errors: IO[str]) -> Started:
        return subprocess.Popen(
            [sys.executable, *self.words],
            stdin=subprocess.DEVNULL,
            stdout=None if self.is_shown else subprocess.DEVNULL,
            stderr=errors,
            text=True,
            env={**os.environ, **self.environment},
            preexec_fn=partial(end_with_parent, self.ending),
        )


@dataclass(frozen=True)
class WorkTask:
    """A shard of some work; see `oatkit.shards.Work`.

    Attributes:
        work: What to run.
        shard: Which of its units.
        folder: Folder that all shards share.
    """

    work: Work
    shard: ShardNumber
    folder: Path

    def __call__(self) -> str:
        try:
            run_shard(self.work, self.shard, self.folder)
        except Exception as error:  # noqa: BLE001  whatever it is, it is told with the others
            return f"{type(error).__name__}: {error}"
        return ""

    def start(self, errors: IO[str]) -> Started:
        return _Spawned(self, errors)


class _Spawned:
    """A task in a process of `multiprocessing`, which finds classes of the main script again."""

    def __init__(self, task: Task, errors: IO[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_run_and_tell, args=(task, errors.name))
        self._process.start()

    def poll(self) -> int | None:
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> int:
        self._process.join()
        return self._process.exitcode or 0


def _run_and_tell(task: Task, errors: str) -> None:
    end_with_parent()
    said = task()
    if said:
        Path(errors).write_text(f"error: {said}\n")
        sys.exit(2)


def end_with_parent(ending: signal.Signals = signal.SIGKILL) -> None:
    """Let the system end this process when its parent dies; where there is no such call, nothing.

    A shard whose worker was lost is begun again elsewhere, and must not run twice.
    """
    prctl = getattr(LIBRARY, "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, ending)


def outcome(code: int, errors: IO[str]) -> str:
    """What an exit code and the printed errors come to; "" where all went well."""
    if code == 0:
        return ""
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    told = [line for line in lines if line.startswith(ERROR)] or lines
    said = told[-1].removeprefix(ERROR) if told else "it said nothing"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}: {said}"
    return f"exit code {code}: {said}"
