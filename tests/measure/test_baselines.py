"""Answers without a network against slow loops and a solved least squares problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.measure import baselines
from oatkit.measure.baselines import BASELINES, measure_baselines

HORIZON, LENGTH = 4, 12
Write = Callable[..., Dataset]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def dataset(name: str, episodes: list[dict[str, np.ndarray]]) -> Dataset:
        folder = tmp_path / name
        folder.mkdir()
        for number, episode in enumerate(episodes):
            np.savez(folder / f"{number}.npz", **episode)
        return oatkit.open_dataset(folder, cache_dir=tmp_path / "cache")

    return dataset


def episodes(seed: int, count: int = 6, *, has_state: bool = True) -> list[dict[str, np.ndarray]]:
    """Walks whose action is a linear function of the state."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        state = rng.normal(size=(LENGTH, 3)).cumsum(axis=0)
        action = state @ np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.0]]) + 5
        found.append({"action": action, **({"observation.state": state} if has_state else {})})
    return found


def errors(train_set: Dataset, held_out: Dataset, **changes: int) -> dict[str, float]:
    settings = {"horizon": HORIZON, "history": 1, "max_chunks": 1000, **changes}
    return {b.name: b.mse for b in measure_baselines(train_set, held_out, **settings)}


def test_hold_and_mean_chunk_are_those_of_a_slow_loop(write: Write) -> None:
    train_set, held_out = write("train", episodes(0)), write("val", episodes(1))
    chunks = train_set.chunks(HORIZON)
    mean_TA = np.mean([chunks[i]["action"] for i in range(len(chunks))], axis=0)
    first_A = np.mean([episode.actions[0] for episode in train_set], axis=0)
    hold, mean = [], []
    for episode in held_out:
        for frame in range(LENGTH):
            steps = np.minimum(np.arange(frame, frame + HORIZON), LENGTH - 1)
            before_A = episode.actions[frame - 1] if frame else first_A
            hold.append(np.square(episode.actions[steps] - before_A).mean())
            mean.append(np.square(episode.actions[steps] - mean_TA).mean())
    found = errors(train_set, held_out)
    assert list(found) == list(BASELINES)
    assert found["hold"] == pytest.approx(np.mean(hold), rel=1e-5)
    assert found["mean chunk"] == pytest.approx(np.mean(mean), rel=1e-5)


def test_ridge_is_least_squares_on_enough_data(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "PENALTY", 1e-12)
    train_set, held_out = write("train", episodes(0)), write("val", episodes(1))
    (known, asked) = (d.chunks(HORIZON).batch(range(d.num_frames)) for d in (train_set, held_out))
    known_BX, asked_BX = (
        np.concatenate([b["observation.state"][:, 0], np.ones((len(b["action"]), 1))], axis=1)
        for b in (known, asked)
    )
    weight = np.linalg.lstsq(known_BX, known["action"].reshape(len(known_BX), -1), rcond=None)[0]
    wanted = np.square(asked_BX @ weight - asked["action"].reshape(len(asked_BX), -1)).mean()
    found = errors(train_set, held_out)
    assert found["ridge"] == pytest.approx(wanted, rel=1e-3)
    assert found["ridge"] < found["hold"] < found["mean chunk"]


def test_a_longer_history_is_read_and_a_constant_state_harms_nothing(write: Write) -> None:
    turned = [{**e, "observation.state": np.ones((LENGTH, 3))} for e in episodes(1)]
    found = errors(write("same", turned), write("again", turned), history=2)
    assert found["ridge"] == pytest.approx(found["mean chunk"])


def test_a_state_that_was_never_seen_is_cut_off(write: Write) -> None:
    """Degrees for radians in one dimension that hardly moved in training."""
    known, asked = episodes(0), episodes(1)
    rng = np.random.default_rng(2)
    for episode in known:
        episode["observation.state"][:, 2] = 1e-9 * rng.normal(size=LENGTH)
    found = errors(write("train", known), write("val", asked))
    assert found["ridge"] < 10 * found["mean chunk"]


def test_without_a_state_there_is_no_regression(write: Write) -> None:
    one, other = (write(n, episodes(s, has_state=False)) for n, s in (("train", 0), ("val", 1)))
    assert list(errors(one, other)) == ["hold", "mean chunk"]


def test_padding_is_left_out_of_the_other_error(write: Write) -> None:
    data = write("train", episodes(0, 2))
    (hold, *_) = measure_baselines(data, data, horizon=HORIZON, history=1, max_chunks=1000)
    chunks = data.chunks(HORIZON)
    batch = chunks.batch(range(len(chunks)))
    first_A = np.mean([episode.actions[0] for episode in data], axis=0)
    before = np.array([data[i // LENGTH].actions[max(i % LENGTH - 1, 0)] for i in range(24)])
    before[batch["frame_index"] == 0] = first_A
    squared = np.square(batch["action"] - before[:, None])
    assert hold.mse_without_padding == pytest.approx(squared[~batch["action_is_pad"]].mean())
