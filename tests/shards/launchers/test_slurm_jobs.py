"""Slurm by way of submitit; its local executor runs the same jobs as processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import oatkit
from oatkit.errors import ShardError
from tests.commands.running import run_command
from tests.jobs.processes import needs_proc, processes_with
from tests.jobs.walks import write_walks
from tests.shards.launchers.tokenizing import tokenizing

pytest.importorskip("submitit", reason="submitit is not installed")
from oatkit.shards.launchers import slurm_jobs

ROOT = Path(__file__).parents[3]
LOCAL = 'cluster = "local"\ntimeout_min = 10\n'


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(LOCAL)
    return path


def test_jobs_give_the_same_bytes_as_one_process(tmp_path: Path, settings: Path) -> None:
    one, jobs = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "jobs")
    oatkit.launch(one.words, on="local:1")
    oatkit.launch(jobs.words, on=f"slurm:{settings}", shards=2)
    assert jobs.tokens() == one.tokens()
    assert any((jobs.out / "slurm").iterdir())


def test_a_failed_job_is_told(tmp_path: Path, settings: Path) -> None:
    words = [*tokenizing(tmp_path, "run").words, "--action-key", "nothing"]
    with pytest.raises(ShardError, match=r"1 of 1 shards failed: shard 0 \(exit code 2: .*nothing"):
        oatkit.launch(words, on=f"slurm:{settings}", shards=1)


@needs_proc
def test_a_machine_that_disappears(tmp_path: Path, settings: Path) -> None:
    """The job's own process is killed; what is finished stays, and the same command goes on."""
    jobs = tokenizing(tmp_path, "jobs")
    killed: list[int] = []

    def kill(*_: int) -> None:
        for process in [] if killed else processes_with("submitit.core._submit"):
            if str(jobs.out / "slurm").encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    with pytest.raises(ShardError, match=r"1 of 1 shards failed: shard 0 \(job .*units are kept"):
        oatkit.launch(jobs.words, on=f"slurm:{settings}", shards=1, progress=kill)
    oatkit.launch(jobs.words, on=f"slurm:{settings}", shards=1)
    assert jobs.tokens()


def test_a_job_that_has_to_go_is_sent_again() -> None:
    """Submitit calls `checkpoint` with what the job was called with, and sends what it gives."""
    requeued = slurm_jobs._Requeued()
    again = requeued.checkpoint(lambda: "it ran")
    assert again.result() == "it ran"
    assert again.function is requeued


def test_two_nodes_of_one_training(
    tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finds out by submitit which node it is; the group has two processes."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, *sys.path))))
    data, out = write_walks(tmp_path / "walks.npz"), tmp_path / "out"
    words = f"tokenizer train --data {data} --kind oat-pow2 --preset tiny --horizon 8 --steps 2"
    words += f" --batch-size 8 --device cpu --cache {tmp_path / 'cache'} --out {out}"
    settings.write_text(LOCAL + "gpus_per_node = 0\n")
    assert oatkit.launch(words, on=f"slurm:{settings}", nodes=2) == out
    assert (out / "model.safetensors").exists()
    assert len(list((out / "slurm").glob("*_log.out"))) == 2, "a log of each node"


def test_a_cluster_that_cannot_be_reached(
    tmp_path: Path,
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["policy", "eval", "x", "--out", str(tmp_path / "d")]
    command = ["launch", "--on", f"slurm:{settings}", "--shards", "2", "--", *words]

    def refused(text: str | None) -> str:
        settings.unlink(missing_ok=True)
        if text is not None:
            settings.write_text(text)
        code, _, error = run_command(command, capsys)
        assert code == 2
        return " ".join(error.split())

    assert "cluster.toml, which does not exist" in refused(None)
    assert "cluster.toml, which is no TOML" in refused("timeout_min = ")
    assert "no jobs can be sent as" in refused("timeout_min = 5")
    assert "no jobs can be sent as" in refused("moon_phase = 5")
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "srun"):
        script = tmp_path / "bin" / name
        script.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert "Unable to contact slurm controller" in refused("timeout_min = 5")
