"""One suite for every format: the same demonstrations come out of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oatkit
from tests.data import datasets
from tests.data.datasets import IMAGE_WRITERS, WRITERS, make_demos

SHADE_ERROR = 6  # of 255; what AV1 and h264 may do to a grey frame


@pytest.mark.parametrize("name", WRITERS)
def test_numbers_tasks_and_rate_are_read(name: str, tmp_path: Path) -> None:
    demos = make_demos()
    dataset = oatkit.open_dataset(WRITERS[name](tmp_path, demos))

    assert [len(e) for e in dataset] == [12, 7, 20]
    assert dataset.num_frames == 39
    for episode, demo in zip(dataset, demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
        np.testing.assert_array_equal(episode.state, demo.state)
        assert episode.task == demo.task
        assert episode.actions.dtype == np.float32
    assert dataset.fps == (None if name in ("zarr", "rlds") else datasets.FPS)
    assert dataset.format in repr(dataset)


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - {"zarr", "robomimic"}))
def test_episodes_keep_their_own_task(name: str, tmp_path: Path) -> None:
    demos = [replace(d, task=t) for d, t in zip(make_demos(), "aab", strict=True)]
    dataset = oatkit.open_dataset(WRITERS[name](tmp_path, demos))
    assert [episode.task for episode in dataset] == ["a", "a", "b"]
    assert dataset.tasks == ("a", "b")


@pytest.mark.parametrize("name", IMAGE_WRITERS)
def test_only_the_asked_images_come_in_the_asked_order(name: str, tmp_path: Path) -> None:
    demos = make_demos()
    dataset = oatkit.open_dataset(IMAGE_WRITERS[name](tmp_path, demos))

    assert list(dataset.cameras) == ["front"]
    camera = dataset.cameras["front"]
    assert (camera.height, camera.width, camera.missing) == (48, 64, None)
    for episode, demo in zip(dataset, demos, strict=True):
        frames = [len(episode) - 1, 0, 3, 3, 1]
        images = episode.images("front", frames)
        assert images.shape == (5, 48, 64, 3)
        assert images.dtype == np.uint8
        error = np.abs(images.astype(int) - demo.images()[frames])
        assert error.mean(axis=(1, 2, 3)).max() < 1.5, "another frame would be off by 3 or more"
        assert error.max() <= SHADE_ERROR
    assert dataset[1].images("front").shape[0] == 7


@pytest.mark.parametrize("name", WRITERS)
def test_fingerprint_follows_the_actions(name: str, tmp_path: Path) -> None:
    demos = make_demos()
    first = oatkit.open_dataset(WRITERS[name](tmp_path / "a", demos) if _mk(tmp_path / "a") else "")
    again = oatkit.open_dataset(WRITERS[name](tmp_path / "b", demos) if _mk(tmp_path / "b") else "")
    demos[1].actions[3, 1] += 1e-3
    _mk(tmp_path / "c")
    changed = oatkit.open_dataset(WRITERS[name](tmp_path / "c", demos))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != changed.fingerprint


def _mk(folder: Path) -> bool:
    folder.mkdir()
    return True
