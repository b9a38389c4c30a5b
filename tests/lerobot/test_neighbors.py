"""LeRobot's own ACT and Diffusion Policy as `benchmarks.neighbors` trains and asks them."""

from __future__ import annotations

import json
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

pytest.importorskip("lerobot", reason="needs LeRobot: `make test-lerobot`")

from benchmarks.neighbors import BATCH_SIZE, HORIZON, TINY
from benchmarks.neighbors_worker import pack, serve, train, unpack

NUM_FRAMES = 60


def write_arrays(path: Path) -> Path:
    rng = np.random.default_rng(0)
    columns = {
        "state": rng.normal(size=(NUM_FRAMES, 39)).astype(np.float32),
        "action": rng.uniform(-1, 1, (NUM_FRAMES, 4)).astype(np.float32),
        "task": np.arange(NUM_FRAMES) % 2,
        "first": np.zeros(NUM_FRAMES, np.int64),
        "last": np.full(NUM_FRAMES, NUM_FRAMES - 1),
    }
    sets = {f"{name}_{key}": v for name in ("train", "held_out") for key, v in columns.items()}
    np.savez(path, num_tasks=2, **sets)
    return path


@pytest.mark.parametrize("kind", TINY)
def test_a_policy_is_trained_and_answers(kind: str, tmp_path: Path) -> None:
    setting = next(iter(TINY[kind].values()))
    asked = {"learning_rate": 1e-3, "batch_size": BATCH_SIZE, "cpu_s": 1.0, "seed": 0}
    asked |= {"kind": kind, "config": setting.config}
    train(write_arrays(tmp_path / "arrays.npz"), asked, tmp_path)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["steps"] > 0
    assert 0 < facts["held_out"]["mse"] < 2
    ours, theirs = Pipe()
    thread = Thread(target=serve, args=(tmp_path, theirs))
    thread.start()
    rng = np.random.default_rng(1)
    question = {
        "state": rng.normal(size=(3, setting.frames, 39)).astype(np.float32),
        "task": np.zeros((3, setting.frames), np.int64),
        "noise": rng.normal(size=(3, HORIZON, 4)).astype(np.float32),
    }
    answers = []
    for _ in range(2):
        ours.send_bytes(pack(question))
        answers.append(unpack(ours.recv_bytes())["chunk"])
    ours.close()
    thread.join()
    assert answers[0].shape == (3, HORIZON + 1 - setting.frames, 4)
    np.testing.assert_array_equal(*answers)  # the noise is all that is random
