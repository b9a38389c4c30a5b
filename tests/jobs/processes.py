"""Whether other processes run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")


@needs_proc
def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processes_with(*words: str) -> list[int]:
    """The processes whose command line has all of some words."""
    wanted = {word.encode() for word in words}
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and wanted <= set(words_of(int(folder.name)))
    ]


def words_of(pid: int) -> list[bytes]:
    """The command line of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[-1].split()[1])
