"""One suite for every format: the same demonstrations come out of each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

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
    assert dataset.fps == (None if name == "zarr" else datasets.FPS)
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


def test_a_dataset_changed_on_disk_is_decoded_anew(tmp_path: Path) -> None:
    demos = make_demos()
    path = datasets.write_npz_file(tmp_path / "all.npz", demos)
    before = oatkit.open_dataset(path)[0].actions
    demos[0].actions[0, 0] = 7
    datasets.write_npz_file(path, demos)
    assert oatkit.open_dataset(path)[0].actions[0, 0] == 7
    assert before[0, 0] != 7


def test_names_come_from_lists_and_dicts(tmp_path: Path) -> None:
    dataset = oatkit.open_dataset(datasets.write_lerobot_v21(tmp_path / "d", make_demos()))
    assert dataset.action.names == ("x", "y", "z")
    assert dataset.state is not None
    assert dataset.state.names == ("p", "q")
    unnamed = oatkit.open_dataset(datasets.write_npz_file(tmp_path / "d.npz", make_demos()))
    assert unnamed.action.names == ("action_0", "action_1", "action_2")


def test_columns_and_dimensions_can_be_chosen(tmp_path: Path) -> None:
    demos = make_demos()
    path = datasets.write_robomimic(tmp_path / "d.hdf5", demos)
    dataset = oatkit.open_dataset(
        path, action_key=["obs/object", "actions"], state_key="actions", action_dims=[4, "object_0"]
    )
    np.testing.assert_array_equal(dataset[0].actions[:, 0], demos[0].actions[:, 2])
    np.testing.assert_array_equal(dataset[0].actions[:, 1], demos[0].state[:, 0])
    np.testing.assert_array_equal(dataset[0].state, demos[0].actions)
    np.testing.assert_array_equal(dataset[1].column("states"), demos[1].state)
    with pytest.raises(ValueError, match="unknown dimension 'obj'; known, closest first: object_0"):
        oatkit.open_dataset(path, action_key="obs/object", action_dims=["obj"])
    with pytest.raises(ValueError, match="dimension 3 does not exist: there are 3"):
        oatkit.open_dataset(path, action_dims=[3])
    with pytest.raises(ValueError, match="no dimensions were selected"):
        oatkit.open_dataset(path, action_dims=[])
    with pytest.raises(oatkit.DatasetError, match=r"unknown column 'action'; .* first: actions"):
        oatkit.open_dataset(path, action_key="action")


def test_hdf5_demonstrations_are_in_numeric_order(tmp_path: Path) -> None:
    demos = make_demos(tuple(range(3, 15)))
    dataset = oatkit.open_dataset(datasets.write_robomimic(tmp_path / "d.hdf5", demos))
    assert [len(e) for e in dataset] == list(range(3, 15))


def test_libero_and_robomimic_states_are_their_proprioception(tmp_path: Path) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos((5,)))
    with h5py.File(path, "a") as file:
        demo = file["data/demo_0"]
        demo["obs/ee_pos"], demo["obs/ee_ori"] = np.ones((5, 3)), 2 * np.ones((5, 3))
        demo["obs/gripper_states"] = 3 * np.ones((5, 2))
    np.testing.assert_array_equal(oatkit.open_dataset(path)[0].state[0], [1, 1, 1, 2, 2, 2, 3, 3])


def test_old_robosuite_files_join_velocities_and_gripper(tmp_path: Path) -> None:
    path = tmp_path / "sawyer.hdf5"
    with h5py.File(path, "w") as file:
        demo = file.create_group("data/demo_1")
        file["data"].attrs.update({"env": "SawyerLift", "repository_version": "0.1.0"})
        demo["joint_velocities"], demo["gripper_actuations"] = np.ones((9, 7)), -np.ones((9, 1))
        demo["left_dpos"] = np.ones((9, 0))
        demo["states"] = np.zeros((9, 4))
    dataset = oatkit.open_dataset(path)
    assert dataset.action_dim == 8
    assert dataset.fps == 100
    assert dataset.format == "robosuite HDF5"
    assert dataset[0].task == "SawyerLift"
    np.testing.assert_array_equal(dataset[0].actions[0], [1, 1, 1, 1, 1, 1, 1, -1])


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


def test_fps_can_be_given(tmp_path: Path) -> None:
    path = datasets.write_zarr(tmp_path / "d.zarr", make_demos())
    assert oatkit.open_dataset(path, fps=12.5)[0].fps == 12.5


def test_hub_ids_fetch_numbers_at_once_and_videos_when_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the hub that copies from a folder, as the real calls do into a cache."""
    import shutil

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


def test_a_v2_dataset_with_image_shapes_channel_first(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][datasets.CAMERA]["shape"] = [3, 48, 64]
    (root / "meta/info.json").write_text(json.dumps(info))
    camera = oatkit.open_dataset(root).cameras["front"]
    assert (camera.height, camera.width) == (48, 64)


def test_v3_rows_split_over_several_files(tmp_path: Path) -> None:
    """Episodes 0 and 1 in one file, 2 in another, as a large dataset has them."""
    demos = make_demos()
    root = datasets.write_lerobot_v3(tmp_path / "d", demos)
    table = pq.read_table(root / "data/chunk-000/file-000.parquet")
    pq.write_table(table.slice(0, 19), root / "data/chunk-000/file-000.parquet")
    pq.write_table(table.slice(19), root / "data/chunk-000/file-001.parquet")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[2]["data/file_index"] = 1
    pq.write_table(type(table).from_pylist(rows), path)
    dataset = oatkit.open_dataset(root)
    for episode, demo in zip(dataset, demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
