from __future__ import annotations

import io
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from oatkit.shards import ShardFolder, ShardNumber
from oatkit.shards.launchers.launcher import CommandTask, WorkTask, outcome
from tests.jobs.processes import needs_proc
from tests.shards.toy_work import Squares

PARENT = """
import subprocess, sys
from oatkit.shards.launchers.launcher import end_with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         preexec_fn=end_with_parent)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (0, "warning: something", ""),
        (2, "warning: x\nerror: no such file\n\n", "exit code 2: no such file"),
        (1, "error: one\nerror: two\nwhat torchrun adds\n====\n", "exit code 1: two"),
        (1, "Traceback\nKeyError: 'x'\n", "exit code 1: KeyError: 'x'"),
        (-9, "", "killed by SIGKILL: it said nothing"),
    ],
)
def test_what_a_command_came_to(code: int, said: str, expected: str) -> None:
    assert outcome(code, io.StringIO(said)) == expected


def test_a_command_runs_in_a_process() -> None:
    assert CommandTask.of(["--version"])() == ""
    found = CommandTask.of(["no-such"])()
    assert found.startswith("exit code 2: unknown command 'oatkit no-such'")


def test_work_runs_here_and_in_a_process(tmp_path: Path) -> None:
    task = WorkTask(Squares(4), ShardNumber(1, 2), tmp_path)
    with tempfile.NamedTemporaryFile("w+") as errors:
        assert outcome(task.start(errors).wait(), errors) == ""
    folder = ShardFolder(tmp_path)
    assert [key for key in folder.plan.units if folder.has(key)] == ["n/1", "n/3"]
    assert task() == ""
    other = WorkTask(Squares(5), ShardNumber(1, 2), tmp_path)
    assert other().startswith(f"ShardError: {tmp_path} holds another run")
    with tempfile.NamedTemporaryFile("w+") as errors:
        found = outcome(other.start(errors).wait(), errors)
    assert found.startswith(f"exit code 2: ShardError: {tmp_path} holds another run")


@needs_proc
@pytest.mark.skipif(sys.platform != "linux", reason="the system call is Linux's")
def test_a_command_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
