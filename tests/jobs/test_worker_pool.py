"""Worker processes that end when the work does, however it ends."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oatkit.jobs.worker_pool import worker_pool
from tests.evaluation.unguarded_script import require_one_sentence
from tests.jobs.processes import needs_proc, wait_until_gone

KILLED = """
import os, sys, time
from oatkit.jobs.worker_pool import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*{pool.submit(os.getpid).result() for _ in range(8)}, flush=True)
        time.sleep(600)
"""


UNGUARDED = """
import math
from oatkit.jobs.worker_pool import worker_pool

with worker_pool(2) as pool:
    print(list(pool.map(math.factorial, range(6))))
"""


def test_a_script_without_a_guard_hears_what_it_lacks_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNGUARDED)
    require_one_sentence(tmp_path / "script.py")


def test_results_come_back() -> None:
    with worker_pool(2) as pool:
        assert list(pool.map(math.factorial, range(6))) == [1, 1, 2, 6, 24, 120]
        assert pool.submit(os.getpid).result() != os.getpid()


@needs_proc
def test_workers_end_at_once_when_the_block_fails() -> None:
    pids: list[int] = []

    def work() -> None:
        with worker_pool(2) as pool:
            pids.extend({pool.submit(os.getpid).result() for _ in range(8)})
            pool.submit(time.sleep, 600)
            raise ValueError("enough")

    began = time.monotonic()
    with pytest.raises(ValueError, match="enough"):
        work()
    wait_until_gone(pids)
    assert time.monotonic() - began < 60


@needs_proc
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(KILLED)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    parent.kill()
    parent.communicate()
    assert pids
    wait_until_gone(pids)
