"""Broken files and wrong arguments: each is named, none becomes data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oatkit
from oatkit import DatasetError
from tests.data import datasets
from tests.data.datasets import WRITERS, make_demos


def truncate(path: Path, share: float = 0.6) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


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


def test_a_nan_in_a_file_of_many_episodes(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos((40,) * 9))
    path = root / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[7 * 40 + 31]["action"][2] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    with pytest.raises(
        DatasetError, match=r"file-000.parquet: 'action' is not finite at episode 7 frame 31"
    ):
        oatkit.open_dataset(root)


def test_a_nan_in_the_state_is_found_too(tmp_path: Path) -> None:
    demos = make_demos()
    demos[2].state[0, 0] = np.inf
    path = datasets.write_npz_folder(tmp_path / "d", demos)
    with pytest.raises(
        DatasetError, match=r"0002.npz: 'observation.state' is not finite at episode 2 frame 0"
    ):
        oatkit.open_dataset(path)


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


@pytest.mark.parametrize("codec", ["av1", "h264"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_truncated_video_is_named_with_its_episode(
    codec: str, share: float, tmp_path: Path
) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos(), codec=codec)
    truncate(root / "videos/observation.images.front/chunk-000/file-000.mp4", share)
    dataset = oatkit.open_dataset(root)
    with pytest.raises(DatasetError, match=r"camera 'front', episode 2: .*file-000.mp4"):
        dataset[2].images("front", [19])


def test_a_video_shorter_than_its_episode(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    videos = root / "videos/chunk-000/observation.images.front"
    shutil.copy(videos / "episode_000001.mp4", videos / "episode_000002.mp4")
    dataset = oatkit.open_dataset(root)
    with pytest.raises(DatasetError, match=r"episode_000002.mp4 ends at 0.600 s but .* 1.900 s"):
        dataset[2].images("front", [19])
    assert dataset[2].images("front", [5]).shape == (1, 48, 64, 3)


def test_a_missing_video_is_told_and_named(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos(), codec="h264")
    shutil.rmtree(root / "videos")
    dataset = oatkit.open_dataset(root)
    missing = dataset.cameras["front"].missing
    assert missing is not None
    assert missing.name == "episode_000000.mp4"
    with pytest.raises(DatasetError, match=r"episode_000000.mp4 cannot be read: No such file"):
        dataset[0].images("front", [0])


def test_a_damaged_stored_image_is_named(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3_images(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[13][datasets.CAMERA]["bytes"] = b"not a png"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    with pytest.raises(DatasetError, match=r"cannot be read \(camera 'front', episode 1 frame 1\)"):
        oatkit.open_dataset(root)[1].images("front", [0, 1])


def test_a_missing_column_names_file_and_the_closest(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000002.parquet"
    table = pq.read_table(path)
    pq.write_table(
        table.rename_columns(["actions" if c == "action" else c for c in table.column_names]), path
    )
    with pytest.raises(
        DatasetError, match=r"episode_000002.parquet: unknown column 'action'; .* first: actions"
    ):
        oatkit.open_dataset(root)


@pytest.mark.parametrize("value", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, None, 2.0], None])
def test_a_ragged_or_empty_action_is_named(value: object, tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000001.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[4]["action"] = value
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(
        DatasetError, match=r"episode_000001.parquet: 'action' of episode 1 frame 4 is not 3 numbe"
    ):
        oatkit.open_dataset(root)


def test_rows_that_only_add_up_are_still_ragged(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/episode_000000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[2]["action"], rows[3]["action"] = [1.0, 2.0], [3.0, 4.0, 5.0, 6.0]
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(DatasetError, match="episode 0 frame 2"):
        oatkit.open_dataset(root)


def test_ragged_hdf5_and_npz(tmp_path: Path) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos())
    with h5py.File(path, "a") as file:
        del file["data/demo_1/states"]
        file["data/demo_1/states"] = np.zeros((6, 2))
    with pytest.raises(DatasetError, match=r"'states' of episode 1 \(demo_1\) is \(6, 2\)"):
        oatkit.open_dataset(path)
    folder = datasets.write_npz_folder(tmp_path / "npz", make_demos())
    np.savez(folder / "0001.npz", action=np.zeros((7, 4)), **{"observation.state": np.ones((7, 2))})
    with pytest.raises(DatasetError, match=r"0001.npz: 'action' is \(7, 4\), expected 7 rows of 3"):
        oatkit.open_dataset(folder)


def test_hdf5_files_that_disagree(tmp_path: Path) -> None:
    folder = datasets.write_libero(tmp_path / "suite", make_demos())
    with h5py.File(folder / "other_demo.hdf5", "w") as file:
        file["data/demo_0/actions"] = np.zeros((5, 8))
    with pytest.raises(
        DatasetError,
        match=r"actions \(8,\): other_demo.hdf5; actions \(3,\): task_0_demo.hdf5\): open them one",
    ):
        oatkit.open_dataset(folder)


def test_fewer_rows_than_meta_says(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos())
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 30), path)
    with pytest.raises(DatasetError, match="holds 30 rows but meta/ says 39"):
        oatkit.open_dataset(root)


def test_a_task_index_out_of_range(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    (root / "meta/tasks.jsonl").write_text("")
    with pytest.raises(DatasetError, match="has task_index 0, which meta/ does not list"):
        _ = oatkit.open_dataset(root)[0].task


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


def test_npz_rules(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", actions=np.zeros((3, 2)))
    with pytest.raises(DatasetError, match=r"unknown key 'action'; known, closest first: actions"):
        oatkit.open_dataset(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", action=np.zeros((3, 2)), episode_ends=[2])
    with pytest.raises(DatasetError, match="whole numbers that grow and end at the 3 rows"):
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


def test_an_old_lerobot_version(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    with pytest.raises(DatasetError, match=r"is LeRobot v1.6; v2.0, v2.1 and v3.0 can be read"):
        oatkit.open_dataset(root)


def test_a_failed_open_leaves_nothing_half_written(tmp_path: Path) -> None:
    root = datasets.write_lerobot_v21(tmp_path / "d", make_demos())
    truncate(root / "data/chunk-000/episode_000002.parquet")
    cache = tmp_path / "cache"
    with pytest.raises(DatasetError, match="cannot be read"):
        oatkit.open_dataset(root, cache_dir=cache)
    assert [p for p in cache.rglob("*") if p.is_file()] == []
