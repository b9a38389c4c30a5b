from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit.data.info import HISTOGRAM_BINS, summarize_dataset
from tests.data import datasets
from tests.data.datasets import make_demos


def test_counts_and_columns(tmp_path: Path) -> None:
    demos = [replace(d, task=t) for d, t in zip(make_demos(), "aba", strict=True)]
    dataset = oatkit.open_dataset(datasets.write_npz_folder(tmp_path / "d", demos, images=True))
    info = summarize_dataset(dataset)
    assert (info.num_episodes, info.num_frames, info.fps) == (3, 39, datasets.FPS)
    assert info.length_quantiles == (7, 10, 12, 16, 20)
    assert [(task.text, task.num_episodes) for task in info.tasks] == [("a", 2), ("b", 1)]
    (camera,) = info.cameras
    assert (camera.name, camera.height, camera.width) == ("front", 48, 64)
    assert (info.action_keys, info.state_keys) == (("action",), ("observation.state",))
    assert info.other_columns == ()
    assert info.fingerprint == dataset.fingerprint


def test_dimensions_are_those_of_numpy(tmp_path: Path) -> None:
    demos = make_demos()
    dataset = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", demos))
    rows = np.concatenate([demo.actions for demo in demos])
    for dim, found in enumerate(summarize_dataset(dataset).action):
        values = rows[:, dim]
        expected, _ = np.histogram(values, HISTOGRAM_BINS)
        assert found.histogram == tuple(expected.tolist())
        assert (found.min, found.max) == (values.min(), values.max())
        assert found.mean == pytest.approx(values.mean(dtype=np.float64))
        assert found.std == pytest.approx(values.std(dtype=np.float64))


def test_columns_that_are_neither_action_nor_state(tmp_path: Path) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos())
    info = summarize_dataset(oatkit.open_dataset(path))
    assert info.other_columns == ("obs/object",)
