from __future__ import annotations

import time

import pytest

from oatkit.shards.launchers.launcher import CommandTask
from oatkit.shards.launchers.local_processes import LocalProcesses


def finish(launcher: LocalProcesses) -> list[str | None]:
    deadline = time.monotonic() + 120
    while None in launcher.poll() and time.monotonic() < deadline:
        time.sleep(0.05)
    found = launcher.poll()
    launcher.stop()
    return found


def test_commands_wait_for_a_free_process() -> None:
    words = [["--version"], ["no-such"], ["--version"]]
    launcher = LocalProcesses([CommandTask.of(one) for one in words], 1)
    assert launcher.poll() == [None] * 3
    first, second, third = finish(launcher)
    assert (first, third) == ("", "")
    assert second is not None
    assert second.startswith("exit code 2: unknown command")


def test_what_runs_is_ended() -> None:
    launcher = LocalProcesses([CommandTask.of(["--version"])] * 3, 2)
    launcher.stop()
    assert [process.poll() is None for process, _ in launcher._processes] == [False, False]


def test_no_processes() -> None:
    with pytest.raises(ValueError, match="--on is local:0, expected 1 process or more"):
        LocalProcesses([], 0)
