"""What all processes that oatkit starts have in common: how many, Ctrl-C, and scripts that they
read once more.

A process that is started anew reads the script that it is started from. Where that has no guard
(`if __name__ == "__main__":`), it does there what the script does, and would start processes too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from oatkit.errors import OatkitError

END_AFTER_S = 5.0
"""Seconds that a process has to end before it is killed."""
UNGUARDED = 78
"""Exit code of a process that would have to start processes while it still reads the script."""


def num_cores() -> int:
    """Number of cores that this process may use, which a batch system may have limited."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def starting() -> Iterator[None]:
    """What starts processes: they ignore Ctrl-C, whose meaning their parent decides.

    A process that is itself started anew and reads a script without a guard ends here, without a
    word: its parent says so, by `require_guard`.
    """
    try:
        with ctrl_c_ignored():
            yield
    except RuntimeError as error:
        if "bootstrapping" not in str(error):
            raise
        raise SystemExit(UNGUARDED) from None


def require_guard(exit_code: int | None) -> None:
    """Raise where a process ended because its script has no guard.

    Args:
        exit_code: Exit code of the process; None while it runs.
    """
    if exit_code == UNGUARDED:
        raise OatkitError(
            "simulators run in processes of their own, which read this script too: put what it "
            'does under `if __name__ == "__main__":`'
        ) from None


@contextmanager
def ctrl_c_ignored() -> Iterator[None]:
    """Ctrl-C is ignored, for good by processes that start meanwhile: their parent decides."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
