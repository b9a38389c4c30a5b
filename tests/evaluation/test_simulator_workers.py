from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oatkit.evaluation.simulator_workers import Begin, Play, Slot, View, Worker
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE
from tests.evaluation.plane import MAX_STEPS, PLANE, AlwaysDying, Broken, Lacking, Plane
from tests.evaluation.unguarded_script import require_one_sentence

VIEW = View((STATE, ENVIRONMENT_STATE), {"top": (4, 6), "below": (2, 2)}, 3)
STILL = np.zeros((2, 2), np.float32)


def slot(view: View = VIEW, task: str = "never") -> Slot:
    return Slot(task, Plane(task, view.cameras), view)


def test_a_frame_holds_the_joined_state_and_every_camera() -> None:
    (first,) = slot().begin(1).frames
    assert set(first) == {STATE, "observation.images.top", "observation.images.below"}
    assert first[STATE].shape == (4,)
    assert first["observation.images.below"].shape == (2, 2, 3)


@pytest.mark.parametrize(("history", "expected"), [(1, [5]), (3, [3, 4, 5]), (9, [1, 2, 3, 4, 5])])
def test_only_the_frames_that_are_read_come_back(history: int, expected: list[int]) -> None:
    running = slot(replace(VIEW, history=history))
    running.begin(1)
    report = running.play(np.zeros((5, 2), np.float32))
    seen = [int(frame["observation.images.top"][0, 0, 0]) for frame in report.frames]
    assert seen == expected
    assert (report.num_steps, report.is_over) == (5, False)


def test_an_episode_that_ends_has_no_frames() -> None:
    running = slot()
    running.begin(1)
    report = running.play(np.zeros((MAX_STEPS + 5, 2), np.float32))
    assert (report.frames, report.num_steps) == ((), MAX_STEPS)
    assert (report.is_over, report.is_success) == (True, False)
    assert report.score is not None


def test_a_worker_answers_in_order_and_keeps_its_slots_apart() -> None:
    worker = Worker(PLANE, replace(VIEW, cameras={}))
    try:
        worker.send([Begin(0, "near", 1), Begin(1, "near", 3)])
        first = worker.receive()
        worker.send([Play(1, STILL + 1), Play(0, STILL)])
        moved, still = worker.receive() or (None, None)
    finally:
        worker.end()
    assert first is not None
    assert moved is not None
    assert still is not None
    assert (moved.frames[-1][STATE][:2] > 0).all()
    assert (still.frames[-1][STATE][:2] == 0).all()


def test_errors_are_raised_by_the_parent_and_a_death_is_noticed() -> None:
    worker = Worker(replace(PLANE, make=Broken), VIEW)
    worker.send([Begin(0, "near", 1)])
    with pytest.raises(RuntimeError, match="no scene for seed 1"):
        worker.receive()
    worker.end()
    worker = Worker(replace(PLANE, make=AlwaysDying), VIEW)
    worker.send([Begin(0, "near", 1), Play(0, STILL)])
    assert worker.receive() is None
    worker.end()


def test_a_package_that_a_simulator_lacks_is_named_by_the_parent() -> None:
    worker = Worker(replace(PLANE, make=Lacking), VIEW)
    worker.send([Begin(0, "near", 1)])
    with pytest.raises(ModuleNotFoundError, match="No module named 'gravity'") as raised:
        worker.receive()
    worker.end()
    assert raised.value.name == "gravity"


def test_a_script_without_a_guard_hears_what_it_lacks_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from oatkit.evaluation.simulator_workers import Begin, View, Worker\n"
        "from tests.evaluation.plane import PLANE\n"
        "worker = Worker(PLANE, View((), {}, 1))\n"
        "worker.send([Begin(0, 'near', 1)])\n"
        "worker.receive()\n"
    )
    require_one_sentence(script)


def test_processes_start_without_torch() -> None:
    code = "import sys, oatkit.evaluation.simulator_workers; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
