from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import make_demos
from tests.data.fake_hub import FakeHub


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
    remote = datasets.write_lerobot_v3(tmp_path / "remote", make_demos(), codec="h264")
    hub = FakeHub(remote, tmp_path / "local", monkeypatch)
    dataset = oatkit.open_dataset("org/cups@v1")
    assert hub.asked == {("org/cups", "dataset", "v1")}
    assert dataset[0].actions.shape == (12, 3)
    assert dataset.cameras["front"].missing is None
    assert not any(name.startswith("videos") for name in hub.fetched)
    hub.fetched.clear()
    assert dataset[0].images("front", [2]).shape == (1, 48, 64, 3)
    assert hub.fetched == ["videos/observation.images.front/chunk-000/file-000.mp4"]


@pytest.mark.parametrize(("version", "expected"), [("v2.1", [1, 2]), ("v3", [1])])
def test_of_some_episodes_only_their_files_are_fetched(
    version: str, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demos = make_demos((12, 7, 20, 9))
    if version == "v3":
        remote = datasets.write_lerobot_v3(tmp_path / "remote", demos)
        datasets.split_v3_data(remote, [12, 27, 9])  # episodes 1 and 2 share a file
    else:
        remote = datasets.write_lerobot_v21(tmp_path / "remote", demos)
    hub = FakeHub(remote, tmp_path / "local", monkeypatch)
    dataset = oatkit.open_dataset("org/cups", episodes=range(1, 3))
    fetched = [name for name in hub.fetched if name.startswith("data/")]
    pattern = "file-{:03d}" if version == "v3" else "episode_{:06d}"
    assert fetched == [f"data/chunk-000/{pattern.format(n)}.parquet" for n in expected]
    assert dataset.episode_numbers.tolist() == [1, 2]
    for episode, demo in zip(dataset, demos[1:3], strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
        assert episode.task == demo.task
    single = oatkit.open_dataset("org/cups", episodes=[2])
    np.testing.assert_array_equal(single[0].actions, demos[2].actions)
    assert [name for name in hub.fetched if name.startswith("data/")] == fetched
    whole = oatkit.open_dataset("org/cups")
    assert len(whole) == 4
    assert single.fingerprint == whole.subset([2]).fingerprint


def test_videos_of_some_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demos = make_demos()
    remote = datasets.write_lerobot_v21(tmp_path / "remote", demos, codec="h264")
    hub = FakeHub(remote, tmp_path / "local", monkeypatch)
    dataset = oatkit.open_dataset("org/cups", episodes={2})
    images = dataset[0].images("front", [0, 19])
    assert np.abs(images.astype(int) - demos[2].images()[[0, 19]]).mean() < 1.5
    videos = [name for name in hub.fetched if name.startswith("videos/")]
    assert videos == ["videos/chunk-000/observation.images.front/episode_000002.mp4"]


def test_a_hub_dataset_of_another_format_is_fetched_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demos = make_demos()
    remote = datasets.write_npz_folder(tmp_path / "remote", demos)
    hub = FakeHub(remote, tmp_path / "local", monkeypatch)
    dataset = oatkit.open_dataset("org/cups", episodes=[1])
    np.testing.assert_array_equal(dataset[0].actions, demos[1].actions)
    assert hub.fetched == ["0000.npz", "0001.npz", "0002.npz"]


def test_a_data_file_that_the_hub_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = datasets.write_lerobot_v21(tmp_path / "remote", make_demos())
    FakeHub(remote, tmp_path / "local", monkeypatch)
    (remote / "data/chunk-000/episode_000001.parquet").unlink()
    assert len(oatkit.open_dataset("org/cups", episodes=[2])) == 1
    with pytest.raises(DatasetError, match=r"episode_000001.parquet of org/cups cannot be fetched"):
        oatkit.open_dataset("org/cups", episodes=[1])


@pytest.mark.parametrize("name", datasets.WRITERS)
def test_some_episodes_of_a_local_dataset(name: str, tmp_path: Path) -> None:
    demos = make_demos()
    dataset = oatkit.open_dataset(datasets.WRITERS[name](tmp_path, demos), episodes=[0, 2])
    assert dataset.episode_numbers.tolist() == [0, 2]
    np.testing.assert_array_equal(dataset[1].actions, demos[2].actions)


def test_episodes_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    expected = r"none of the asked episodes \(--episodes\) is in .*, whose episodes are 0 to 2"
    with pytest.raises(ValueError, match=expected):
        oatkit.open_dataset(path, episodes=range(3, 9))
    FakeHub(path, tmp_path / "local", monkeypatch)
    with pytest.raises(ValueError, match=expected):
        oatkit.open_dataset("org/cups", episodes=range(3, 9))


def test_an_unreachable_hub_is_a_dataset_error() -> None:
    with pytest.raises(oatkit.DatasetError, match=r"org/nowhere is no path here and could not be"):
        oatkit.open_dataset("org/nowhere")


def test_a_mistyped_path_is_answered_with_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets.write_lerobot_v21(tmp_path / "out/quick", make_demos())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(oatkit.DatasetError, match=r"hub \(.*\): did you mean out/quick\?$"):
        oatkit.open_dataset("out/quik")


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
