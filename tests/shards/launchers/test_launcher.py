from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oatkit.shards.launchers.launcher import outcome, run_words
from tests.jobs.processes import needs_proc

PARENT = """
import subprocess, sys
from oatkit.shards.launchers.launcher import end_with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         preexec_fn=end_with_parent)
print(child.pid, flush=True)
child.wait()
"""


def test_what_a_command_came_to() -> None:
    assert outcome(0, "warning: something") == ""
    assert outcome(2, "warning: x\nerror: no such file\n\n") == "exit code 2: no such file"
    assert outcome(-9, "") == "exit code -9: it said nothing"


def test_a_command_runs_in_a_process() -> None:
    assert run_words(["--version"]) == ""
    assert run_words(["no-such"]).startswith("exit code 2: unknown command 'oatkit no-such'")


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
