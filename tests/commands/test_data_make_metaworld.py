"""`oatkit data make metaworld` as a user runs, stops and kills it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import oatkit
from tests.jobs.demonstrations import DATA, make
from tests.jobs.processes import needs_proc, wait_until_gone

pytest.importorskip("metaworld", reason="needs the extra metaworld")


def test_a_killed_run_is_completed_to_the_same_dataset(tmp_path: Path) -> None:
    out = tmp_path / "d"
    command = [
        *(sys.executable, "-m", "oatkit.cli", "data", "make", "metaworld", "--out", str(out)),
        *("--tasks", "reach", "door-close", "--episodes", "3", "--workers", "2"),
    ]
    partial = tmp_path / "d.partial"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(partial.glob("*/*.npz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    kept = {p: p.stat().st_mtime_ns for p in partial.glob("*/*.npz")}
    assert 2 <= len(kept) < 6
    with pytest.raises(oatkit.DatasetError, match=r"d does not exist|is no path"):
        oatkit.open_dataset(out)

    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"{out} is ready" in ran.stdout
    assert (out / DATA).read_bytes() == (make(tmp_path / "straight") / DATA).read_bytes()
    assert not partial.exists()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, busy with its first of many attempts, as the leader of a process group."""
    out = str(tmp_path / "d")
    options = ("--out", out, "--tasks", "reach", "--episodes", "500", "--workers", "2")
    process = subprocess.Popen(
        [*(sys.executable, "-m", "oatkit.cli", "data", "make", "metaworld"), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background job ignores Ctrl-C, and so would all that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not list(tmp_path.glob("d.partial/reach/*.npz")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    yield process
    process.kill()
    process.communicate()


def worker_pids(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children]


def test_ctrl_c_stops_at_once_and_says_how_to_go_on(running: subprocess.Popen[str]) -> None:
    pids = worker_pids(running)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "the same command again continues" in " ".join(errors.split())
    assert "Traceback" not in errors
    wait_until_gone(pids)


@needs_proc
def test_workers_end_with_the_process_that_started_them(running: subprocess.Popen[str]) -> None:
    pids = worker_pids(running)
    assert len(pids) >= 2
    running.kill()
    wait_until_gone(pids)
