"""Ray on this machine, with a worker that is killed halfway."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.jobs.shard_table import MERGES
from oatkit.shards.launchers.launching import launch
from tests.jobs.processes import needs_proc
from tests.shards.launchers.tokenizing import tokenizing

ray = pytest.importorskip("ray", reason="ray is not installed")


@needs_proc
def test_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    one, tasks = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "tasks")
    launch(one.words, MERGES, on="local:1")
    ray.init("local", num_cpus=2, log_to_driver=False)
    killed: list[int] = []

    def kill_one(*_: int) -> None:
        workers = [] if killed else workers_of(str(tasks.out))
        if workers:
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])

    launch(tasks.words, MERGES, on="ray:local", shards=3, progress=kill_one)
    assert len(killed) == 1
    assert tasks.tokens() == one.tokens()


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    words = ["x", "--out", str(tmp_path / "d")]
    with pytest.raises(ShardError, match=r"no Ray cluster answers at 'auto' \(--on\)"):
        launch(words, MERGES, on="ray:auto", shards=2)


def workers_of(out: str) -> list[int]:
    """The processes of Ray that have started a command with this `--out`."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and out.encode() in words_of(folder):
                parent = int((folder / "stat").read_text().rsplit(") ")[-1].split()[1])
                if words_of(Path(f"/proc/{parent}"))[0].startswith(b"ray::"):
                    found.append(parent)
    return found


def words_of(folder: Path) -> list[bytes]:
    return (folder / "cmdline").read_bytes().split(b"\0")
