"""Demonstrations: the same whatever the workers, complete or absent, completed after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.envs.metaworld import METAWORLD, TASKS, scripted_expert
from oatkit.errors import DatasetError
from oatkit.jobs import demonstration_job as job
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from tests.jobs.demonstrations import DATA, make


def test_the_number_of_workers_changes_nothing(demos: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "two", workers=2)
    for path in demos.rglob("*.parquet"):
        name = path.relative_to(demos)
        assert (other / name).read_bytes() == path.read_bytes(), name


def test_seeds_and_noise_change_the_data(demos: Path, tmp_path: Path) -> None:
    plain = oatkit.open_dataset(demos)
    seeded = oatkit.open_dataset(make(tmp_path / "seeded", seed=1))
    noisy = oatkit.open_dataset(make(tmp_path / "noisy", noise=0.2))
    assert len({plain.fingerprint, seeded.fingerprint, noisy.fingerprint}) == 3
    first = "observation.environment_state"
    np.testing.assert_array_equal(noisy[0].column(first)[0], plain[0].column(first)[0])
    jitter = (
        np.diff(noisy[0].actions[:10], axis=0).std(),
        np.diff(plain[0].actions[:10], axis=0).std(),
    )
    assert jitter[0] > 2 * jitter[1]
    assert np.abs(noisy.action_statistics().max).max() <= 1


def test_clean_labels_are_the_experts_actions_in_the_noisy_states(tmp_path: Path) -> None:
    """The states are those of the noisy episode; the actions are what the expert does in them."""
    noisy = oatkit.open_dataset(make(tmp_path / "noisy", noise=0.2))
    clean = oatkit.open_dataset(make(tmp_path / "clean", noise=0.2, clean_labels=True))
    for noisy_episode, episode in zip(noisy, clean, strict=True):
        states = episode.column("observation.environment_state")
        np.testing.assert_array_equal(states, noisy_episode.column("observation.environment_state"))
        task = next(name for name, text in TASKS.items() if text == episode.task)
        expert = scripted_expert(task)
        wanted = np.stack([expert(state) for state in states]).clip(-1, 1)
        np.testing.assert_allclose(episode.actions, wanted, atol=1e-6)
        assert np.abs(episode.actions - noisy_episode.actions).max() > 0.1


def test_under_a_push_the_experts_answer_is_recorded(tmp_path: Path) -> None:
    """The states go astray and come back; the labels are the expert's, push or not."""
    plain = oatkit.open_dataset(make(tmp_path / "plain"))
    pushed = oatkit.open_dataset(make(tmp_path / "pushed", pushes=3))
    assert plain.fingerprint != pushed.fingerprint
    key, astray = "observation.environment_state", 0.0
    for episode in pushed:
        states = episode.column(key)
        task = next(name for name, text in TASKS.items() if text == episode.task)
        wanted = np.stack([scripted_expert(task)(state) for state in states])
        np.testing.assert_allclose(episode.actions, wanted, atol=1e-6)
        own = next(e for e in plain if np.array_equal(e.column(key)[0], states[0]))
        length = min(len(own), len(episode))
        astray = max(astray, np.abs(own.column(key)[:length, :3] - states[:length, :3]).max())
    assert astray > 0.02  # meters between the hands


def test_finished_attempts_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails while writing keeps its attempts; the next makes no new ones."""

    def fail(*args: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(job, "assemble_dataset", fail)
        with pytest.raises(OSError, match="disk full"):
            make(tmp_path / "d", tasks=("reach",), episodes=2)
    times = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "d.partial/reach").iterdir()}
    assert set(times) == {"00000.npz", "00001.npz"}
    made_again: list[object] = []
    monkeypatch.setattr(job, "worker_pool", lambda *a: made_again.append(a) or _NoPool())
    assert len(oatkit.open_dataset(make(tmp_path / "d", tasks=("reach",), episodes=2))) == 2


class _NoPool:
    """Refuses work."""

    def __enter__(self) -> _NoPool:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def submit(self, *args: object) -> None:
        raise AssertionError("an attempt was repeated")


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
    partial = tmp_path / "d.partial"
    partial.mkdir()
    (partial / "plan.json").write_text(json.dumps({"tasks": ["push"]}))
    with pytest.raises(DatasetError, match=r"d.partial was made with other options \(tasks was"):
        make(tmp_path / "d")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep me")
    with pytest.raises(DatasetError, match="exists and is not from this command"):
        make(tmp_path / "mine")
    assert (tmp_path / "mine/notes.txt").read_text() == "keep me"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("reech",)}, r"unknown metaworld task 'reech'; known, closest first: reach"),
        ({"tasks": ()}, "expected one or more, each once"),
        ({"tasks": ("push", "push-v3")}, r"tasks are \[push, push\], expected one or more"),
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"workers": 0}, "workers is 0, expected 1 or more"),
        ({"noise": -0.1}, "noise is -0.1, expected a finite number of 0 or more"),
        ({"clean_labels": True}, "clean_labels needs noise"),
        ({"pushes": -1}, "pushes is -1, expected 0 or more"),
        ({"seed": -1}, "the seed is -1"),
        ({"images": True, "image_size": (63, 64)}, r"image_size is \(63, 64\), expected two even"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "d", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_without_effect_warn(demos: Path) -> None:
    with pytest.warns(UserWarning, match="have no effect without images"):
        make(demos, shadows=False)


def test_a_dead_worker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "make_attempt", _die)
    with pytest.raises(oatkit.OatkitError, match=r"a worker process died .* same command again"):
        make(tmp_path / "d")


def _die(*args: object, **settings: object) -> bool:
    os._exit(3)


def test_what_a_kill_left_beside_a_finished_dataset_is_removed(demos: Path) -> None:
    partial = demos.with_name("d.partial")
    (partial / "reach").mkdir(parents=True)
    (partial / "plan.json").write_text((demos / job.PLAN_PATH_IN_DATASET).read_text())
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


def test_all_stands_for_every_task() -> None:
    assert job.checked_tasks(Demonstrations(tasks=("all",)), METAWORLD) == tuple(TASKS)


def test_an_empty_folder_is_a_place_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert make(Path(), tasks=("reach",), episodes=1) == tmp_path
    assert len(oatkit.open_dataset(tmp_path)) == 1
