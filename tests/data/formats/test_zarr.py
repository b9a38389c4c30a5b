from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def test_a_folder_with_one_zarr_store_and_a_zipped_store_are_opened(tmp_path: Path) -> None:
    demos = make_demos()
    datasets.write_zarr(tmp_path / "d.zarr", demos)
    assert oatkit.open_dataset(tmp_path).num_frames == 39
    (tmp_path / "zipped").mkdir()
    zipped = tmp_path / "zipped" / "d.zarr.zip"
    source = zarr.open_group(str(tmp_path / "d.zarr"), mode="r")
    with zarr.storage.ZipStore(zipped, mode="w") as store:
        group = zarr.open_group(store, mode="w", zarr_format=2)
        for key in ("data/action", "data/state", "meta/episode_ends"):
            group.create_array(key, data=source[key][:])
    np.testing.assert_array_equal(oatkit.open_dataset(zipped)[2].actions, demos[2].actions)


def test_missing_zarr_chunks_do_not_become_zeros(tmp_path: Path) -> None:
    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    (path / "data/action/2.0").unlink()
    with pytest.raises(DatasetError, match="data/action has 7 of its 8 chunks"):
        oatkit.open_dataset(path)


def test_zarr_rows_and_ends_that_disagree(tmp_path: Path) -> None:
    import zarr

    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    group = zarr.open_group(str(path), mode="a")
    group["meta/episode_ends"][:] = np.array([12, 12, 39])
    with pytest.raises(DatasetError, match="episode_ends does not grow at episode 1"):
        oatkit.open_dataset(path)
    group["meta/episode_ends"][:] = np.array([12, 19, 38])
    with pytest.raises(DatasetError, match="has 39 rows but meta/episode_ends says 38"):
        oatkit.open_dataset(path)


def test_strange_zarr(tmp_path: Path) -> None:
    (tmp_path / "bad.zarr.zip").write_bytes(b"no zip")
    with pytest.raises(DatasetError, match=r"bad.zarr.zip cannot be read"):
        oatkit.open_dataset(tmp_path / "bad.zarr.zip")
    path = datasets.write_zarr(tmp_path / "d" / "d.zarr", make_demos())
    group = zarr.open_group(str(path), mode="a")
    group.create_group("data/nested")
    group.create_array("data/note", data=np.ones(2))
    assert oatkit.open_dataset(path).columns == ("action", "state")
    (path / "data/action/.zarray").write_text("{}")
    with pytest.raises(DatasetError, match=r"d.zarr (has no|cannot be read)"):
        oatkit.open_dataset(path)
    datasets.write_zarr(tmp_path / "d" / "e.zarr", make_demos())
    with pytest.raises(DatasetError, match="holds 2 zarr stores: name one of them"):
        oatkit.open_dataset(tmp_path / "d")


def test_float_images_from_0_to_1_are_refused(tmp_path: Path) -> None:
    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    group = zarr.open_group(str(path), mode="a")
    group.create_array("data/front", data=np.full((39, 4, 4, 3), 0.5, np.float32))
    with pytest.raises(DatasetError, match=r"data/front holds images in 0 \.\. 1, expected 0"):
        oatkit.open_dataset(path)[0].images("front", [0])
