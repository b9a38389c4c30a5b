"""Processes of this machine: `--on local:4`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from oatkit.shards.launchers.launcher import Words, command_of, end_with_parent, outcome


class LocalProcesses:
    """Processes of this machine, some at once; see `Launcher`.

    Args:
        commands: What to run.
        num_processes: Number of processes at once.
    """

    def __init__(self, commands: Sequence[Words], num_processes: int) -> None:
        if num_processes < 1:
            raise ValueError(f"--on is local:{num_processes}, expected 1 process or more")
        self._commands = list(commands)
        self._num_processes = num_processes
        self._processes: list[tuple[subprocess.Popen[str], IO[str]]] = []
        self.poll()

    def poll(self) -> list[str | None]:
        codes = [process.poll() for process, _ in self._processes]
        while codes.count(None) < self._num_processes and len(codes) < len(self._commands):
            errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  `stop` closes it
            words = command_of(self._commands[len(codes)])
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                text=True,
                preexec_fn=end_with_parent,
            )
            self._processes.append((process, errors))
            codes.append(None)
        started = [
            None if code is None else outcome(code, _content(errors))
            for code, (_, errors) in zip(codes, self._processes, strict=True)
        ]
        return started + [None] * (len(self._commands) - len(started))

    def stop(self) -> None:
        for process, _ in self._processes:
            if process.poll() is None:
                process.terminate()
        for process, errors in self._processes:
            process.wait()
            errors.close()


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
