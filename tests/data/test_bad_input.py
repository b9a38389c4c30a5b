"""Broken files and wrong arguments: each is named, none becomes data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import WRITERS, make_demos, truncate


def nan_at(episode: int, frame: int) -> list[datasets.Demo]:
    demos = make_demos((40,) * 9)
    demos[episode].actions[frame, 1] = np.nan
    return demos


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - {"lerobot-v3"}))
def test_a_nan_is_named_by_file_episode_and_frame(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, nan_at(7, 31))
    with pytest.raises(DatasetError, match="is not finite at episode 7 frame 31") as caught:
        oatkit.open_dataset(path)
    assert str(tmp_path) in str(caught.value)
    assert np.isnan(oatkit.open_dataset(path, allow_nonfinite=True)[7].actions[31, 1])


@pytest.mark.parametrize(
    ("write", "file"),
    [
        (WRITERS["lerobot-v3"], "data/chunk-000/file-000.parquet"),
        (WRITERS["lerobot-v3"], "meta/episodes/chunk-000/file-000.parquet"),
        (WRITERS["lerobot-v3"], "meta/tasks.parquet"),
        (WRITERS["lerobot-v3"], "meta/info.json"),
        (WRITERS["lerobot-v2.1"], "data/chunk-000/episode_000001.parquet"),
        (WRITERS["lerobot-v2.1"], "meta/episodes.jsonl"),
        (WRITERS["robomimic"], ""),
        (WRITERS["libero"], "task_0_demo.hdf5"),
        (WRITERS["npz-folder"], "0001.npz"),
        (WRITERS["npz-file"], ""),
        (WRITERS["zarr"], "data/action/3.0"),
        (WRITERS["rlds"], "1.0.0/cups-train.tfrecord-00001-of-00002"),
        (WRITERS["rlds"], "1.0.0/features.json"),
    ],
)
def test_a_truncated_file_is_named(
    write: Callable[[Path, list[datasets.Demo]], Path], file: str, tmp_path: Path
) -> None:
    root = write(tmp_path, make_demos())
    truncate(root / file if file else root)
    with pytest.raises(DatasetError, match="cannot be read") as caught:
        oatkit.open_dataset(root)
    assert (file or root.name) in str(caught.value)
