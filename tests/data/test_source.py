"""Every format gives what the rest of oatkit relies on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oatkit.data.open import open_source
from oatkit.data.source import Feature
from tests.data.datasets import IMAGE_WRITERS, WRITERS, make_demos


def test_the_size_of_a_feature_is_the_product_of_its_shape() -> None:
    assert Feature((3,)).size == 3
    assert Feature((2, 4)).size == 8


@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_those_of_the_episodes(name: str, tmp_path: Path) -> None:
    source = open_source(WRITERS[name](tmp_path, make_demos()))
    num_rows = int(source.episode_lengths.sum())
    assert set(source.action_keys) | set(source.state_keys) <= set(source.features)
    for key, feature in source.features.items():
        blocks = list(source.read(key))
        assert sum(len(block) for block in blocks) == num_rows
        assert {block.shape[1:] for block in blocks} == {(feature.size,)}
        assert {block.dtype for block in blocks} == {np.dtype(np.float32)}
    index = np.concatenate(list(source.read_task_index()))
    assert len(index) == num_rows
    assert {source.tasks[i] for i in index} == set(source.tasks)


@pytest.mark.parametrize("name", WRITERS)
def test_files_are_there_and_hold_every_episode(name: str, tmp_path: Path) -> None:
    source = open_source(WRITERS[name](tmp_path, make_demos()))
    assert source.files()
    assert all(path.is_file() for path in source.files())
    for episode in range(len(source.episode_numbers)):
        assert source.file_of(episode).exists()


@pytest.mark.parametrize("name", IMAGE_WRITERS)
def test_images_have_the_size_that_the_camera_says(name: str, tmp_path: Path) -> None:
    source = open_source(IMAGE_WRITERS[name](tmp_path, make_demos()))
    for name, camera in source.cameras.items():
        images = source.read_images(name, 1, np.array([0, 6]))
        assert images.shape == (2, camera.height, camera.width, 3)
        assert images.dtype == np.uint8
