from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def test_npz_rules(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", moves=np.zeros((3, 2)))
    with pytest.raises(DatasetError, match=r"unknown key 'action'; known, closest first: moves"):
        oatkit.open_dataset(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", action=np.zeros((3, 2)), episode_ends=[2])
    with pytest.raises(DatasetError, match="integers that grow and end at the 3 rows"):
        oatkit.open_dataset(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", action=np.array([[1, 2], [3, "x"]], dtype=object))
    with pytest.raises(DatasetError, match="'action' holds object, expected numbers"):
        oatkit.open_dataset(tmp_path / "c.npz")
    (tmp_path / "two").mkdir()
    for name in "ab":
        np.savez(tmp_path / f"two/{name}.npz", action=np.zeros((3, 2)), episode_ends=[3])
    with pytest.raises(DatasetError, match="a folder takes one episode a file"):
        oatkit.open_dataset(tmp_path / "two")


def test_an_episode_without_the_camera_is_named(tmp_path: Path) -> None:
    key = "observation.images.front"
    arrays = {"action": np.zeros((3, 2)), key: np.zeros((3, 8, 8, 3), np.uint8)}
    np.savez(tmp_path / "0.npz", **arrays)
    np.savez(tmp_path / "1.npz", action=arrays["action"])
    dataset = oatkit.open_dataset(tmp_path, cache_dir=tmp_path / "cache")
    with pytest.raises(DatasetError, match=r"1\.npz: unknown key 'observation\.images\.front'"):
        dataset[1].images("front", [0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"action": np.array(1.0)}, r"'action' has shape \(\), expected \(T, A\)"),
        ({"action": np.ones((4, 0))}, r"'action' has shape \(4, 0\)"),
        ({"action": np.ones((4, 2)), "episode_ends": 4}, "must be integers"),
        ({"action": np.ones((4, 2)), "episode_ends": [[4]]}, "must be integers"),
        ({"action": np.ones((4, 2)), "episode_ends": [1.5, 4]}, "must be integers"),
        ({"action": np.ones((4, 2)), "fps": [10, 20]}, "cannot be read"),
        ({"action": np.ones((4, 2)), "fps": "ten"}, "cannot be read"),
        (
            {"action": np.ones((4, 2)), "episode_ends": [2, 4], "task": ["a"] * 3},
            "3 tasks for 2 episodes",
        ),
    ],
)
def test_strange_npz(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "strange.npz", **arrays)
    with pytest.raises(DatasetError, match=message) as caught:
        oatkit.open_dataset(tmp_path / "strange.npz")
    assert "strange.npz" in str(caught.value)


def test_a_folder_takes_one_episode_a_file_also_in_its_second(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", action=np.ones((4, 2)))
    np.savez(tmp_path / "1.npz", action=np.ones((4, 2)), episode_ends=[2, 4])
    with pytest.raises(DatasetError, match=r"1.npz holds several episodes"):
        oatkit.open_dataset(tmp_path)


def test_damaged_bytes_in_a_compressed_npz(tmp_path: Path) -> None:
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos((200, 300)))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"d.npz"):
        oatkit.open_dataset(path)


def test_fortran_order_big_endian_and_other_types_are_read(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(6, 2)
    images = np.random.default_rng(0).integers(0, 255, (6, 4, 5, 3)).astype(np.uint8)
    np.savez(
        tmp_path / "d.npz",
        **{
            "action": np.asfortranarray(values.astype(">f8")),
            "observation.state": values > 4,
            "observation.images.top": np.asfortranarray(images),
        },
    )
    dataset = oatkit.open_dataset(tmp_path / "d.npz")
    np.testing.assert_array_equal(dataset[0].actions, values)
    np.testing.assert_array_equal(dataset[0].state, values > 4)
    np.testing.assert_array_equal(dataset[0].images("top", [4, 1]), images[[4, 1]])


def test_columns_of_different_widths(tmp_path: Path) -> None:
    folder = datasets.write_npz_folder(tmp_path / "npz", make_demos())
    np.savez(folder / "0001.npz", action=np.zeros((7, 4)), **{"observation.state": np.ones((7, 2))})
    with pytest.raises(DatasetError, match=r"0001.npz: 'action' is \(7, 4\), expected 7 rows of 3"):
        oatkit.open_dataset(folder)


def test_float_images_are_refused(tmp_path: Path) -> None:
    images = {"observation.images.front": np.full((3, 4, 4, 3), 0.5)}
    np.savez(tmp_path / "e.npz", action=np.ones((3, 2)), **images)
    with pytest.raises(DatasetError, match=r"is float64 \(3, 4, 4, 3\), expected uint8"):
        oatkit.open_dataset(tmp_path / "e.npz")


def test_suffixes_may_be_capitals(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", action=np.ones((4, 2)))
    (tmp_path / "d.npz").rename(tmp_path / "d.NPZ")
    assert oatkit.open_dataset(tmp_path).num_frames == 4
    assert oatkit.open_dataset(tmp_path / "d.NPZ").num_frames == 4


def test_names_of_dimensions(tmp_path: Path) -> None:
    arrays = {"action": np.zeros((5, 2)), "observation.state": np.zeros((5, 3))}
    np.savez(tmp_path / "0.npz", **arrays, **{"action.names": ["shoulder", "elbow"]})
    dataset = oatkit.open_dataset(tmp_path)
    assert dataset.action.names == ("shoulder", "elbow")
    assert dataset.state is not None
    assert dataset.state.names == ("state_0", "state_1", "state_2")
    assert oatkit.open_dataset(tmp_path, action_dims=["elbow"]).action_dim == 1
    np.savez(tmp_path / "0.npz", **arrays, **{"action.names": ["shoulder"]})
    with pytest.raises(DatasetError, match=r"'action.names' is <U8 \(1,\), expected 2 texts"):
        oatkit.open_dataset(tmp_path)
