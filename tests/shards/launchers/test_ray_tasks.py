"""Ray on this machine, with a worker that is killed halfway."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import oatkit
from oatkit.errors import ShardError
from tests.commands.running import run_command
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.processes import needs_proc, parent_of, processes_with, words_of
from tests.shards.launchers.evaluating import evaluate_in_the_plane, evaluating
from tests.shards.launchers.tokenizing import tokenizing
from tests.shards.toy_work import Squares, merge_squares

ray = pytest.importorskip("ray", reason="ray is not installed")


def kill_a_worker(out: Path, killed: list[int]) -> None:
    """Kill a process of Ray that has started a command with this `--out`, once."""
    for process in [] if killed else processes_with(str(out)):
        with suppress(OSError):
            parent = parent_of(process)
            if words_of(parent)[0].startswith(b"ray::"):
                os.kill(parent, signal.SIGKILL)
                killed.append(parent)
                return


@needs_proc
def test_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    one, tasks = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "tasks")
    oatkit.launch(one.words, on="local:1")
    ray.init("local", num_cpus=2, log_to_driver=False)
    killed: list[int] = []
    oatkit.launch(
        tasks.words, on="ray:local", shards=3, progress=lambda *_: kill_a_worker(tasks.out, killed)
    )
    assert len(killed) == 1
    assert tasks.tokens() == one.tokens()


@needs_proc
def test_one_process_two_shards_and_four_tasks_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_in_the_plane(tmp_path, monkeypatch)
    policy, killed = str(save_plane_policy(tmp_path)), []
    one, two, four = (tmp_path / name for name in ("one", "two", "four"))
    found = [
        oatkit.launch(evaluating(policy, one), on="local:1"),
        oatkit.launch(evaluating(policy, two), on="local:2"),
    ]
    ray.init("local", num_cpus=2, log_to_driver=False)
    found.append(
        oatkit.launch(
            evaluating(policy, four),
            on="ray:local",
            shards=4,
            progress=lambda *_: kill_a_worker(four, killed),
        )
    )
    assert len(killed) == 1
    assert len({path.read_bytes() for path in found}) == 1


def test_work_of_ones_own(tmp_path: Path) -> None:
    how = {"merge": merge_squares, "shards": 3}
    here = oatkit.launch(Squares(5), on="local:1", out=tmp_path / "here", **how)  # type: ignore[arg-type]
    there = oatkit.launch(Squares(5), on="ray:local", out=tmp_path / "there", **how)  # type: ignore[arg-type]
    assert here.read_bytes() == there.read_bytes()


@needs_proc
def test_a_worker_that_is_lost_again_and_again(tmp_path: Path) -> None:
    """The message names the shard, and what is finished stays."""
    tasks = tokenizing(tmp_path, "tasks")
    ray.init("local", num_cpus=1, log_to_driver=False)
    with pytest.raises(ShardError, match=r"1 of 1 shards failed: shard 0 \(.*units are kept"):
        oatkit.launch(
            tasks.words, on="ray:local", shards=1, progress=lambda *_: kill_a_worker(tasks.out, [])
        )


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9", "no-such-host.invalid:6379"])
def test_a_cluster_that_does_not_answer(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["policy", "eval", "x", "--out", str(tmp_path / "d")]
    launched = ["launch", "--on", f"ray:{address}", "--shards", "2", "--", *words]
    code, _, error = run_command(launched, capsys)
    assert code == 2
    assert f"no Ray cluster answers at '{address}' (--on)" in " ".join(error.split())
    assert not (tmp_path / "d").exists()
