from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos


def test_fps_can_be_given(tmp_path: Path) -> None:
    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    assert oatkit.open_dataset(path, fps=12.5)[0].fps == 12.5


@pytest.mark.parametrize("fps", [0, -3, float("nan"), float("inf")])
def test_wrong_fps(fps: float, tmp_path: Path) -> None:
    path = datasets.write_npz_file(tmp_path / "d.npz", make_demos())
    with pytest.raises(ValueError, match="expected a number above 0"):
        oatkit.open_dataset(path, fps=fps)


def test_hub_ids_fetch_numbers_at_once_and_videos_when_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the hub that copies from a folder, as the real calls do into a cache."""

    import huggingface_hub

    remote = datasets.write_lerobot_v3(tmp_path / "remote", make_demos(), codec="h264")
    local = tmp_path / "local"
    fetched: list[str] = []

    def snapshot_download(
        repo_id: str, *, repo_type: str, revision: str | None, ignore_patterns: list[str]
    ) -> str:
        assert (repo_id, repo_type, revision) == ("org/cups", "dataset", "v1")
        shutil.copytree(remote, local, ignore=lambda d, names: [n for n in names if n == "videos"])
        assert ignore_patterns == ["videos/*"]
        return str(local)

    def hf_hub_download(
        repo_id: str, filename: str, *, repo_type: str, revision: str | None
    ) -> str:
        fetched.append(filename)
        return str(remote / filename)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    dataset = oatkit.open_dataset("org/cups@v1")
    assert dataset[0].actions.shape == (12, 3)
    assert dataset.cameras["front"].missing is None
    assert fetched == []
    assert dataset[0].images("front", [2]).shape == (1, 48, 64, 3)
    assert fetched == ["videos/observation.images.front/chunk-000/file-000.mp4"]


def test_an_unreachable_hub_is_a_dataset_error() -> None:
    with pytest.raises(oatkit.DatasetError, match=r"org/nowhere is no path here and could not be"):
        oatkit.open_dataset("org/nowhere")


def test_empty_datasets(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "lerobot", make_demos())
    (root / "meta/episodes.jsonl").write_text("")
    with pytest.raises(DatasetError, match="holds no episodes"):
        oatkit.open_dataset(root)
    with h5py.File(tmp_path / "empty.hdf5", "w") as file:
        file.create_group("data")
    with pytest.raises(DatasetError, match=r"empty.hdf5 holds no demonstrations"):
        oatkit.open_dataset(tmp_path / "empty.hdf5")
    np.savez(tmp_path / "empty.npz", action=np.zeros((0, 2)))
    with pytest.raises(DatasetError, match=r"empty.npz has no actions"):
        oatkit.open_dataset(tmp_path / "empty.npz")


def test_unknown_formats_and_places(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DatasetError, match=r"no known dataset format \(LeRobot: a folder with"):
        oatkit.open_dataset(tmp_path)
    with pytest.raises(DatasetError, match="/no/such/place does not exist"):
        oatkit.open_dataset("/no/such/place")
