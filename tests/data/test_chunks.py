"""Windows, padding, history and sampling, against a slow loop."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oatkit
from tests.data import datasets
from tests.data.datasets import make_demos

PROPERTY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def open_demos(folder: Path, lengths: tuple[int, ...]) -> tuple[oatkit.Dataset, list]:
    demos = make_demos(lengths)
    name = "-".join(map(str, lengths))
    path = folder / f"{name}.npz"
    if not path.exists():
        datasets.write_npz_file(path, demos)
    return oatkit.open_dataset(path), demos


@PROPERTY
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    horizon=st.integers(1, 9),
    stride=st.integers(1, 4),
    history=st.integers(1, 4),
)
def test_windows_equal_a_slow_loop(
    tmp_path: Path, lengths: tuple[int, ...], horizon: int, stride: int, history: int
) -> None:
    dataset, demos = open_demos(tmp_path, lengths)
    if horizon > max(lengths):
        with pytest.raises(ValueError, match=f"horizon {horizon} is longer than every episode"):
            dataset.chunks(horizon)
        return
    chunks = dataset.chunks(horizon, stride=stride, history=history)
    expected = [(e, t) for e, demo in enumerate(demos) for t in range(0, len(demo.actions), stride)]
    assert len(chunks) == len(expected)

    batch = chunks.batch(range(len(chunks)))
    for i, (e, start) in enumerate(expected):
        demo, last = demos[e], len(demos[e].actions) - 1
        for t in range(horizon):
            frame = start + t
            np.testing.assert_array_equal(batch["action"][i, t], demo.actions[min(frame, last)])
            assert batch["action_is_pad"][i, t] == (frame > last)
        for n in range(history):
            frame = max(0, start - history + 1 + n)
            np.testing.assert_array_equal(batch["observation.state"][i, n], demo.state[frame])
        assert (batch["episode_index"][i], batch["frame_index"][i]) == (e, start)
        assert batch["task"][i] == demo.task
    assert not batch["action_is_pad"][:, 0].any(), "a chunk starts inside its episode"


def test_one_chunk_is_a_row_of_the_batch(tmp_path: Path) -> None:
    dataset, _ = open_demos(tmp_path, (12, 7))
    chunks = dataset.chunks(5, history=2)
    batch = chunks.batch([3, 18])
    for row, index in enumerate((3, -1)):
        for key, value in chunks[index].items():
            np.testing.assert_array_equal(value, batch[key][row])
    actions, is_pad = chunks.actions([3, 18])
    np.testing.assert_array_equal(actions, batch["action"])
    np.testing.assert_array_equal(is_pad, batch["action_is_pad"])


def test_sampling_is_uniform_seeded_and_of_the_subset(tmp_path: Path) -> None:
    dataset, _ = open_demos(tmp_path, (12, 7, 20))
    chunks = dataset.subset([0, 2]).chunks(5)
    first = chunks.sample(4000, np.random.default_rng(3))
    again = chunks.sample(4000, np.random.default_rng(3))
    np.testing.assert_array_equal(first["action"], again["action"])
    places = first["episode_index"] * 100 + first["frame_index"]
    values, counts = np.unique(places, return_counts=True)
    assert values.tolist() == [*range(12), *range(200, 220)]
    assert counts.min() > 70  # 125 expected, standard deviation 11


def test_frames_and_images_by_index(tmp_path: Path) -> None:
    demos = make_demos()
    path = datasets.write_npz_folder(tmp_path / "d", demos, images=True)
    dataset = oatkit.open_dataset(path)
    frame = dataset.frame(14, cameras=["front"])
    np.testing.assert_array_equal(frame["action"][0], demos[1].actions[2])
    np.testing.assert_array_equal(frame["observation.images.front"][0], demos[1].images()[2])
    batch = dataset.chunks(5, history=3, cameras="front").batch([20, 0, 13])
    images = batch["observation.images.front"]
    assert images.shape == (3, 3, datasets.HEIGHT, datasets.WIDTH, 3)
    np.testing.assert_array_equal(images[0], demos[2].images()[[0, 0, 1]])
    np.testing.assert_array_equal(images[1], demos[0].images()[[0, 0, 0]])
    np.testing.assert_array_equal(images[2], demos[1].images()[[0, 0, 1]])


def test_workers_get_paths_not_numbers(tmp_path: Path) -> None:
    dataset, _ = open_demos(tmp_path, (400, 700))
    chunks = dataset.chunks(5)
    expected = chunks.batch([0, 500])
    data = pickle.dumps(chunks)
    assert len(data) < 5000 < dataset[0].actions.nbytes + dataset[1].actions.nbytes
    np.testing.assert_array_equal(pickle.loads(data).batch([0, 500])["action"], expected["action"])


@pytest.mark.parametrize("word", ["horizon", "stride", "history"])
def test_counts_below_one(word: str, tmp_path: Path) -> None:
    dataset, _ = open_demos(tmp_path, (12,))
    with pytest.raises(ValueError, match=f"{word} is 0, expected at least 1"):
        dataset.chunks(**{"horizon": 2, word: 0})


def test_indices_and_names_out_of_range(tmp_path: Path) -> None:
    dataset, _ = open_demos(tmp_path, (12,))
    with pytest.raises(IndexError, match="chunk 12 does not exist: there are 12"):
        dataset.chunks(2)[12]
    with pytest.raises(IndexError, match="chunk indices go from 0 to 11"):
        dataset.chunks(2).batch([-1])
    with pytest.raises(IndexError, match="episode 1 does not exist: there are 1"):
        dataset[1]
    with pytest.raises(ValueError, match="unknown camera 'front': there are none"):
        dataset.chunks(2, cameras=["front"])
    with pytest.raises(ValueError, match="unknown camera 'front'"):
        dataset[0].images("front", [0])
    path = datasets.write_npz_folder(tmp_path / "d", make_demos(), images=True)
    with pytest.raises(IndexError, match="frame 12 does not exist: there are 12"):
        oatkit.open_dataset(path)[0].images("front", [12])


def test_a_part_of_short_episodes_has_padded_chunks(tmp_path: Path) -> None:
    """As the same episodes have in the whole dataset."""
    dataset, _ = open_demos(tmp_path, (5, 9))
    part, whole = dataset.subset([0]).chunks(7), dataset.chunks(7)
    assert len(part) == 5
    for key in ("action", "action_is_pad"):
        np.testing.assert_array_equal(part.batch(range(5))[key], whole.batch(range(5))[key])
    assert part.batch(range(5))["action_is_pad"].any(axis=1).all()
    with pytest.raises(
        ValueError, match=r"longer than every episode of [^ ]*; the longest has 9 f"
    ):
        dataset.subset([1]).chunks(10)


def test_an_image_that_is_asked_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demos = make_demos()
    path = datasets.write_npz_folder(tmp_path / "d", demos, images=True)
    dataset = oatkit.open_dataset(path)
    source = dataset._source
    real, asked = source.read_images, []

    def reading(camera: str, episode: int, frames: np.ndarray) -> np.ndarray:
        asked.append((episode, frames.tolist()))
        return real(camera, episode, frames)

    monkeypatch.setattr(source, "read_images", reading)
    monkeypatch.setattr("oatkit.data.dataset.IMAGES_AT_ONCE", 3)
    chunks = dataset.chunks(
        5, history=2, cameras="front", resize=lambda images: images[:, ::2, ::2]
    )
    images = chunks.batch([13, 3, 14, 0, 13, 4])["observation.images.front"]
    assert asked == [(0, [0, 2, 3]), (0, [4]), (1, [0, 1, 2])]
    wanted = [(1, 0, 1), (0, 2, 3), (1, 1, 2), (0, 0, 0), (1, 0, 1), (0, 3, 4)]
    for found, (demo, before, now) in zip(images, wanted, strict=True):
        whole = demos[demo].images()[[before, now]]
        np.testing.assert_array_equal(found, whole[:, ::2, ::2])
