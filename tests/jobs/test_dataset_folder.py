"""Datasets that are complete or absent, and completed after a kill."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import oatkit
from oatkit.errors import DatasetError, ShardError
from oatkit.jobs.dataset_folder import LOCK
from oatkit.jobs.demonstration_shards import PLAN_PATH_IN_DATASET, DemonstrationWork
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld, metaworld_job
from oatkit.shards import ShardFolder
from tests.jobs.demonstrations import DATA, make


def test_a_finished_dataset_is_left_alone(demos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (demos / DATA).stat().st_mtime_ns
    wanted = Demonstrations(("reach", "door-close-v3"), episodes=3)
    found = make_metaworld(demos, wanted, workers=2, show_progress=True)
    assert found == demos
    assert "is already finished" in capsys.readouterr().err
    assert (demos / DATA).stat().st_mtime_ns == before


def test_other_options_are_an_error_and_touch_nothing(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"made with other options \(seed was 0, is 5\)"):
        make(demos, seed=5)
    other = DemonstrationWork(metaworld_job(Demonstrations(("push",))))
    ShardFolder.begin(tmp_path / "d.partial", other)
    with pytest.raises(ShardError, match=r"d.partial holds another run \(episodes was 50, is 3"):
        make(tmp_path / "d")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep me")
    with pytest.raises(DatasetError, match="exists and is not from this command"):
        make(tmp_path / "mine")
    assert (tmp_path / "mine/notes.txt").read_text() == "keep me"


def test_what_a_kill_left_beside_a_finished_dataset_is_removed(demos: Path) -> None:
    partial = demos.with_name("d.partial")
    (partial / "reach").mkdir(parents=True)
    ShardFolder.begin(partial, DemonstrationWork(metaworld_job(Demonstrations(("push",)))))
    make(demos)
    assert partial.exists(), "what is of others stays"
    (partial / "plan.json").unlink()
    same = metaworld_job(Demonstrations(("reach", "door-close"), episodes=3))
    ShardFolder.begin(partial, DemonstrationWork(same))
    make(demos)
    assert not partial.exists()


def test_a_run_killed_while_it_writes_the_dataset_is_completed(demos: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    code = (
        "import os, pathlib, oatkit.jobs.metaworld_demonstrations as job\n"
        "from oatkit.data.lerobot_writer import LeRobotWriter\n"
        "LeRobotWriter.close = lambda writer: os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        f"    job.make_metaworld(pathlib.Path({str(out)!r}),\n"
        "        job.Demonstrations(('reach', 'door-close'), episodes=3))\n"
    )
    (tmp_path / "killed.py").write_text(code)
    ran = subprocess.run([sys.executable, tmp_path / "killed.py"], capture_output=True, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert (tmp_path / "d.partial/dataset/data").exists()
    make(out)
    for path in demos.rglob("*.parquet"):
        assert (out / path.relative_to(demos)).read_bytes() == path.read_bytes()


def test_an_empty_folder_is_a_place_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert make(Path(), tasks=("reach",), episodes=1) == tmp_path
    assert len(oatkit.open_dataset(tmp_path)) == 1


def test_two_processes_do_not_make_one_dataset(tmp_path: Path) -> None:
    partial = tmp_path / "d.partial"
    partial.mkdir()
    with (partial / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DatasetError, match=r"another process is working in .*d\.partial"):
            make(tmp_path / "d")


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_a_damaged_plan_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "d.partial").mkdir()
    (tmp_path / "d.partial/plan.json").write_text(text)
    with pytest.raises(ShardError, match=r"plan.json (cannot be read|is no plan)"):
        make(tmp_path / "d")
    (tmp_path / "d/meta").mkdir(parents=True)
    (tmp_path / "d" / PLAN_PATH_IN_DATASET).write_text(text)
    with pytest.raises(DatasetError, match=r"oatkit_plan.json is no plan|with other options"):
        make(tmp_path / "d")
