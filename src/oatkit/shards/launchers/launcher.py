"""What a launcher does: start commands somewhere, say which have ended, and stop them."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

LIBRARY = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1

Words = Sequence[str]
"""The words of an `oatkit` command, without `oatkit`."""


class Launcher(Protocol):
    """Commands that run somewhere.

    A launcher is made with the commands, which it starts at once or as room permits.
    """

    def poll(self) -> list[str | None]:
        """How each command stands: None while it waits or runs, "" when it has ended well, else
        the reason why it has not."""

    def stop(self) -> None:
        """End what is still running."""


def command_of(words: Words) -> list[str]:
    """The command line that runs `oatkit` in the environment of this process."""
    return [sys.executable, "-m", "oatkit.cli", *words]


def run_words(words: Words) -> str:
    """Run one command to its end, in a process of its own; returns "" or what went wrong."""
    ended = subprocess.run(
        command_of(words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=end_with_parent,
    )
    return outcome(ended.returncode, ended.stderr)


def end_with_parent() -> None:
    """Let the system kill this process when its parent dies; where there is no such call, nothing.

    A shard whose worker was lost is begun again elsewhere, and must not run twice.
    """
    prctl = getattr(LIBRARY, "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def outcome(code: int, errors: str) -> str:
    """What an exit code and the printed errors come to; "" where all went well."""
    if code == 0:
        return ""
    lines = [line for line in errors.splitlines() if line.strip()]
    said = lines[-1].removeprefix("error: ") if lines else "it said nothing"
    return f"exit code {code}: {said}"
