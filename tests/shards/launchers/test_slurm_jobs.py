"""Slurm by way of submitit; its local executor runs the same jobs as processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.jobs.shard_table import MERGES
from oatkit.shards.launchers.launching import launch
from tests.shards.launchers.tokenizing import tokenizing

pytest.importorskip("submitit", reason="submitit is not installed")


def test_jobs_give_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    one, jobs = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "jobs")
    launch(one.words, MERGES, on="local:1")
    settings = tmp_path / "cluster.toml"
    settings.write_text('cluster = "local"\ntimeout_min = 5\n')
    launch(jobs.words, MERGES, on=f"slurm:{settings}", shards=2)
    assert jobs.tokens() == one.tokens()
    assert any((jobs.out / "slurm").iterdir())


def test_a_failed_job_is_told(tmp_path: Path) -> None:
    words = [*tokenizing(tmp_path, "run").words, "--action-key", "nothing"]
    settings = tmp_path / "cluster.toml"
    settings.write_text('cluster = "local"\n')
    with pytest.raises(ShardError, match=r"1 of 1 shards failed: shard 0 \(exit code 2: .*nothing"):
        launch(words, MERGES, on=f"slurm:{settings}", shards=1)


def test_a_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    settings = tmp_path / "cluster.toml"
    words = ["x", "--out", str(tmp_path / "d")]
    with pytest.raises(ValueError, match=r"cluster.toml, which does not exist"):
        launch(words, MERGES, on=f"slurm:{settings}", shards=2)
    settings.write_text("timeout_min = ")
    with pytest.raises(ValueError, match=r"cluster.toml, which is no TOML"):
        launch(words, MERGES, on=f"slurm:{settings}", shards=2)
    settings.write_text("timeout_min = 5")
    with pytest.raises(ShardError, match=r"no jobs can be sent as .*cluster.toml says"):
        launch(words, MERGES, on=f"slurm:{settings}", shards=2)
