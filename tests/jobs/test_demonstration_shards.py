"""Demonstrations: the same whatever the workers and shards, completed after a kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import oatkit
from oatkit.errors import ShardError
from oatkit.jobs import demonstration_shards as shards
from oatkit.jobs.demonstration_shards import DemonstrationWork
from oatkit.jobs.metaworld_demonstrations import Demonstrations, metaworld_job
from oatkit.jobs.robosuite_demonstrations import (
    RobosuiteDemonstrations,
    make_robosuite,
    robosuite_job,
)
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.atomic_write import ASIDE
from tests.envs.robosuite_install import skip_without_robosuite
from tests.jobs.demonstrations import make


def run_both(work: DemonstrationWork, folder: Path) -> Path:
    for index in (1, 0):
        run_shard(work, ShardNumber(index, 2), folder)
    return merge_folder(folder, MERGES)


def same_files(one: Path, other: Path) -> None:
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    for file in files:
        assert (other / file).read_bytes() == (one / file).read_bytes(), file


def test_every_file_is_that_of_one_run(demos: Path, tmp_path: Path) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    wanted = metaworld_job(Demonstrations(tasks=("reach", "door-close"), episodes=3))
    made = run_both(DemonstrationWork(wanted, workers=1), tmp_path)
    same_files(demos, made)
    assert merge_folder(tmp_path, MERGES) == made, "merging again is fine"


def test_robosuite_too(tmp_path: Path) -> None:
    skip_without_robosuite()
    wanted = RobosuiteDemonstrations(("lift", "door"), episodes=1)
    made = run_both(DemonstrationWork(robosuite_job(wanted), workers=1), tmp_path / "shards")
    same_files(make_robosuite(tmp_path / "whole", wanted, workers=1), made)


def test_a_task_whose_attempts_are_there_makes_none(tmp_path: Path) -> None:
    """Also beside what a kill has left."""
    job = metaworld_job(Demonstrations(tasks=("reach",), episodes=2))
    (tmp_path / "reach").mkdir()
    for name in ("00000.npz", "00001.failed", "00002.npz", f"{ASIDE}7-00003.npz"):
        (tmp_path / "reach" / name).touch()
    assert list(DemonstrationWork(job).run(["reach"], tmp_path)) == [
        ("reach", {"successes": [0, 2]})
    ]


def test_a_damaged_attempt_is_named(tmp_path: Path) -> None:
    work = DemonstrationWork(metaworld_job(Demonstrations(("reach",), episodes=1)), workers=1)
    run_shard(work, ShardNumber(0, 1), tmp_path)
    before = merge_folder(tmp_path, MERGES) / "data/chunk-000/file-000.parquet"
    expected, broken = before.read_bytes(), tmp_path / "reach/00000.npz"
    broken.write_bytes(b"")
    with pytest.raises(ShardError, match=r"00000.npz is damaged: remove it and .*reach.json"):
        merge_folder(tmp_path, MERGES)
    for path in (broken, tmp_path / "units/reach.json"):
        path.unlink()
    run_shard(work, ShardNumber(0, 1), tmp_path)
    assert merge_folder(tmp_path, MERGES).parent == tmp_path
    assert before.read_bytes() == expected


def test_the_number_of_workers_changes_nothing(demos: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "two", workers=2)
    for path in demos.rglob("*.parquet"):
        name = path.relative_to(demos)
        assert (other / name).read_bytes() == path.read_bytes(), name


def test_finished_attempts_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails while writing keeps its attempts; the next makes no new ones."""

    def fail(*args: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(shards, "merge_demonstrations", fail)
        with pytest.raises(OSError, match="disk full"):
            make(tmp_path / "d", tasks=("reach",), episodes=2)
    times = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "d.partial/reach").iterdir()}
    assert set(times) == {"00000.npz", "00001.npz"}
    made_again: list[object] = []
    monkeypatch.setattr(shards, "worker_pool", lambda *a: made_again.append(a) or _NoPool())
    assert len(oatkit.open_dataset(make(tmp_path / "d", tasks=("reach",), episodes=2))) == 2


class _NoPool:
    """Refuses work."""

    def __enter__(self) -> _NoPool:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def submit(self, *args: object) -> None:
        raise AssertionError("an attempt was repeated")


def test_a_dead_worker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "make_attempt", _die)
    with pytest.raises(oatkit.OatkitError, match=r"a worker process died .* same command again"):
        make(tmp_path / "d")


def _die(*args: object, **settings: object) -> bool:
    os._exit(3)
