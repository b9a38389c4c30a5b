"""Processes of this machine: `--on local:4`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import IO

from oatkit.shards.launchers.launcher import Started, Task, outcome


class LocalProcesses:
    """Processes of this machine, some at once; see `Launcher`.

    Args:
        tasks: What to run.
        num_processes: Number of processes at once.
    """

    def __init__(self, tasks: Sequence[Task], num_processes: int) -> None:
        if num_processes < 1:
            raise ValueError(f"--on is local:{num_processes}, expected 1 process or more")
        self._tasks = list(tasks)
        self._num_processes = num_processes
        self._processes: list[tuple[Started, IO[str]]] = []
        self.poll()

    def poll(self) -> list[str | None]:
        codes = [process.poll() for process, _ in self._processes]
        while codes.count(None) < self._num_processes and len(codes) < len(self._tasks):
            errors = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115  `stop` closes it
            self._processes.append((self._tasks[len(codes)].start(errors), errors))
            codes.append(None)
        started = [
            None if code is None else outcome(code, errors)
            for code, (_, errors) in zip(codes, self._processes, strict=True)
        ]
        return started + [None] * (len(self._tasks) - len(started))

    def stop(self) -> None:
        for process, _ in self._processes:
            if process.poll() is None:
                process.terminate()
        for process, errors in self._processes:
            process.wait()
            errors.close()
