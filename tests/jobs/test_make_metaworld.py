"""Demonstrations: the same whatever the workers, whole or absent, completed after a kill."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.envs.metaworld import FPS, TASKS, MetaWorld, scripted_expert
from oatkit.envs.simulator import demonstration_seed
from oatkit.errors import DatasetError
from oatkit.jobs import metaworld_demonstrations as recipe
from oatkit.jobs.metaworld_demonstrations import MakeMetaWorld, make_metaworld

DATA = "data/chunk-000/file-000.parquet"


def make(out: Path, **options: object) -> Path:
    config = MakeMetaWorld(out, tasks=("reach", "door-close"), episodes=3, workers=1)
    return make_metaworld(replace(config, **options), show_progress=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("made") / "d")


def test_what_is_written(made: Path) -> None:
    dataset = oatkit.open_dataset(made)
    assert (len(dataset), dataset.fps, dataset.format) == (6, FPS, "LeRobot v3.0")
    assert [e.task for e in dataset] == [TASKS["reach"]] * 3 + [TASKS["door-close"]] * 3
    assert dataset.action.names == ("x", "y", "z", "gripper")
    assert dataset.columns == (
        "observation.state",
        "observation.environment_state",
        "action",
        "timestamp",
    )
    for episode in dataset:
        np.testing.assert_array_equal(
            episode.column("observation.environment_state")[:, :4], episode.state
        )
        assert np.abs(episode.actions).max() <= 1
    goals = {e.column("observation.environment_state")[0, -3:].tobytes() for e in dataset}
    assert len(goals) == 6
    assert sorted(p.name for p in made.parent.iterdir()) == ["d"], "nothing is left beside it"


@pytest.mark.parametrize(("first", "task"), [(0, "reach"), (3, "door-close")])
def test_recorded_actions_replay_the_recorded_states_and_end_5_steps_after_success(
    made: Path, first: int, task: str
) -> None:
    dataset = oatkit.open_dataset(made)
    environment = MetaWorld(task)
    for attempt in range(3):
        episode = dataset[first + attempt]
        observation = environment.reset(demonstration_seed(0, attempt))
        states_TE = episode.column("observation.environment_state")
        successes = []
        for action, state in zip(episode.actions, states_TE, strict=True):
            np.testing.assert_array_equal(observation["observation.environment_state"], state)
            result = environment.step(action)
            observation = result.observation
            successes.append(result.is_success)
        assert successes.index(True) == len(episode) - 1 - 5


def test_the_number_of_workers_changes_nothing(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "two", workers=2)
    for path in made.rglob("*.parquet"):
        name = path.relative_to(made)
        assert (other / name).read_bytes() == path.read_bytes(), name


def test_seeds_and_noise_change_the_data(made: Path, tmp_path: Path) -> None:
    plain = oatkit.open_dataset(made)
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


def test_a_killed_run_is_completed_to_the_same_dataset(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    command = [
        *(sys.executable, "-m", "oatkit.cli", "data", "make", "metaworld", "--out", str(out)),
        *("--tasks", "reach", "door-close", "--episodes", "3", "--workers", "2"),
    ]
    partial = tmp_path / "d.partial"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(partial.glob("*/*.npz"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    kept = {p: p.stat().st_mtime_ns for p in partial.glob("*/*.npz")}
    assert 2 <= len(kept) < 6
    with pytest.raises(oatkit.DatasetError, match=r"d does not exist|is no path"):
        oatkit.open_dataset(out)

    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"{out} is ready" in ran.stdout
    assert (out / DATA).read_bytes() == (made / DATA).read_bytes()
    assert not partial.exists()


def test_finished_attempts_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails while writing keeps its attempts; the next makes no new ones."""

    def fail(*args: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(recipe, "_assemble", fail)
        with pytest.raises(OSError, match="disk full"):
            make(tmp_path / "d", tasks=("reach",), episodes=2)
    times = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "d.partial/reach").iterdir()}
    assert set(times) == {"00000.npz", "00001.npz"}
    made_again: list[object] = []
    monkeypatch.setattr(recipe, "worker_pool", lambda *a: made_again.append(a) or _NoPool())
    assert len(oatkit.open_dataset(make(tmp_path / "d", tasks=("reach",), episodes=2))) == 2


class _NoPool:
    """Refuses work."""

    def __enter__(self) -> _NoPool:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def submit(self, *args: object) -> None:
        raise AssertionError("an attempt was repeated")


def test_a_finished_dataset_is_left_alone(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (made / DATA).stat().st_mtime_ns
    config = MakeMetaWorld(made, tasks=("reach", "door-close-v3"), episodes=3, workers=2)
    assert make_metaworld(config) == made
    assert "is already finished" in capsys.readouterr().err
    assert (made / DATA).stat().st_mtime_ns == before


def test_other_options_are_an_error_and_touch_nothing(made: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"made with other options \(seed was 0, is 5\)"):
        make(made, seed=5)
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


def test_an_expert_that_fails_too_often(tmp_path: Path) -> None:
    attempts = recipe._Attempts(MakeMetaWorld(tmp_path, tasks=("reach",), episodes=2), tmp_path)
    for _ in range(20):
        task, number = attempts.start_next() or ("", -1)
        attempts.finish(task, number, is_success=number == 3)
    with pytest.raises(DatasetError, match="'reach' succeeded in 1 of 20 attempts, too few for 2"):
        attempts.start_next()


def test_attempts_are_none_too_many_and_the_first_successes(tmp_path: Path) -> None:
    """Two workers that finish out of order still keep the first successes."""
    config = MakeMetaWorld(tmp_path, tasks=("reach",), episodes=3)
    attempts = recipe._Attempts(config, tmp_path)
    fails = {0, 2, 3}
    under_way: list[tuple[str, int]] = []
    while True:
        while len(under_way) < 2 and (attempt := attempts.start_next()):
            under_way.append(attempt)
        if not under_way:
            break
        task, number = under_way.pop()  # the later one ends first
        attempts.finish(task, number, is_success=number not in fails)
    assert attempts.successes("reach") == [1, 4, 5]
    assert attempts.num_finished == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("reech",)}, r"unknown metaworld task 'reech'; known, closest first: reach"),
        ({"tasks": ()}, "expected one or more, each once"),
        ({"tasks": ("push", "push-v3")}, r"tasks are \[push, push\], expected one or more"),
        ({"episodes": 0}, "episodes is 0, expected 1 or more"),
        ({"workers": 0}, "workers is 0, expected 1 or more"),
        ({"noise": -0.1}, "noise is -0.1, expected a finite number of 0 or more"),
        ({"seed": -1}, "the seed is -1"),
        ({"images": True, "image_size": (63, 64)}, r"image_size is \(63, 64\), expected two even"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        make(tmp_path / "d", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_without_effect_warn(made: Path) -> None:
    with pytest.warns(UserWarning, match="have no effect without images"):
        make(made, shadows=False)


def test_images(tmp_path: Path) -> None:
    images = {"images": True, "image_size": (64, 96), "shadows": False}
    root = make(tmp_path / "d", tasks=("door-close",), episodes=2, **images)
    dataset = oatkit.open_dataset(root)
    camera = dataset.cameras["corner2"]
    assert (camera.height, camera.width) == (64, 96)
    environment = MetaWorld("door-close", image_size=(64, 96), shadows=False)
    environment.reset(demonstration_seed(0, 1))
    episode = dataset[1]
    for action in episode.actions[:-1]:
        environment.step(action)
    images = episode.images("corner2", [0, len(episode) - 1])
    error = np.abs(images[1].astype(int) - environment.render())
    assert error.mean() < 6, "the last image is the one before the last action"
    assert np.abs(images[0].astype(int) - images[1]).mean() > error.mean()
    info = json.loads((root / "meta/info.json").read_text())
    assert info["features"]["observation.images.corner2"]["info"]["video.codec"] == "av1"


def test_a_dead_worker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "_make_attempt", _die)
    with pytest.raises(oatkit.OatkitError, match=r"a worker process died .* same command again"):
        make(tmp_path / "d")


def _die(*args: object) -> bool:
    os._exit(3)


def test_failed_attempts_are_passed_over(tmp_path: Path) -> None:
    """The expert fails at the fifth goal of sweep-into, so the sixth takes its place."""
    dataset = oatkit.open_dataset(make(tmp_path / "d", tasks=("sweep-into",), episodes=5))
    environment = MetaWorld("sweep-into")
    for episode, attempt in zip(dataset, (0, 1, 2, 3, 5), strict=True):
        observation = environment.reset(demonstration_seed(0, attempt))
        np.testing.assert_array_equal(episode.state[0], observation["observation.state"])
        np.testing.assert_array_equal(
            episode.column("observation.environment_state")[0],
            observation["observation.environment_state"],
        )


def test_a_recorded_action_is_the_experts_answer_to_the_recorded_state(made: Path) -> None:
    for episode in oatkit.open_dataset(made):
        name = next(name for name, text in TASKS.items() if text == episode.task)
        states_TE = episode.column("observation.environment_state")
        expected_TA = np.stack([scripted_expert(name)(state_E) for state_E in states_TE])
        np.testing.assert_array_equal(episode.actions, expected_TA)


def test_what_a_kill_left_beside_a_finished_dataset_is_removed(made: Path) -> None:
    partial = made.with_name("d.partial")
    (partial / "reach").mkdir(parents=True)
    (partial / "plan.json").write_text((made / recipe.PLAN_PATH_IN_DATASET).read_text())
    make(made)
    assert not partial.exists()


def test_two_processes_do_not_make_one_dataset(made: Path, tmp_path: Path) -> None:
    partial = tmp_path / "d.partial"
    partial.mkdir()
    with (partial / recipe.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DatasetError, match=r"another process is working in .*d\.partial"):
            make(tmp_path / "d")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, busy with its first of many attempts, as the leader of a process group."""
    out = str(tmp_path / "d")
    options = ("--out", out, "--tasks", "reach", "--episodes", "500", "--workers", "2")
    process = subprocess.Popen(
        [*(sys.executable, "-m", "oatkit.cli", "data", "make", "metaworld"), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background job ignores Ctrl-C, and so would all that it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not list(tmp_path.glob("d.partial/reach/*.npz")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    yield process
    process.kill()
    process.communicate()


def worker_pids(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")


@needs_proc
def test_ctrl_c_stops_at_once_and_says_how_to_go_on(running: subprocess.Popen[str]) -> None:
    pids = worker_pids(running)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "the same command again continues" in " ".join(errors.split())
    assert "Traceback" not in errors
    wait_until_gone(pids)


@needs_proc
def test_workers_end_with_the_process_that_started_them(running: subprocess.Popen[str]) -> None:
    pids = worker_pids(running)
    assert len(pids) >= 2
    running.kill()
    wait_until_gone(pids)


def test_a_run_killed_while_it_writes_the_dataset_is_completed(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    code = (
        "import os, pathlib, oatkit.jobs.metaworld_demonstrations as recipe\n"
        "recipe.LeRobotWriter.close = lambda writer: os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        f"    recipe.make_metaworld(recipe.MakeMetaWorld(pathlib.Path({str(out)!r}),\n"
        "        tasks=('reach', 'door-close'), episodes=3))\n"
    )
    (tmp_path / "killed.py").write_text(code)
    ran = subprocess.run([sys.executable, tmp_path / "killed.py"], capture_output=True, timeout=60)
    assert ran.returncode == -signal.SIGKILL
    assert (tmp_path / "d.partial/dataset/data").exists()
    make(out)
    for path in made.rglob("*.parquet"):
        assert (out / path.relative_to(made)).read_bytes() == path.read_bytes()


def test_all_stands_for_every_task(tmp_path: Path) -> None:
    config = MakeMetaWorld(tmp_path / "d", tasks=("all",))
    assert recipe._checked(config).tasks == tuple(TASKS)


def test_an_empty_folder_is_a_place_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert make(Path(), tasks=("reach",), episodes=1) == tmp_path
    assert len(oatkit.open_dataset(tmp_path)) == 1


def test_a_damaged_attempt_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(recipe, "_assemble", lambda *args: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            make(tmp_path / "d", tasks=("reach",), episodes=1)
    (tmp_path / "d.partial/reach/00000.npz").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"00000.npz is damaged; remove it, and the same"):
        make(tmp_path / "d", tasks=("reach",), episodes=1)


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_a_damaged_plan_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "d.partial").mkdir()
    (tmp_path / "d.partial/plan.json").write_text(text)
    with pytest.raises(DatasetError, match=r"plan.json is no plan|with other options|exists and"):
        make(tmp_path / "d")
