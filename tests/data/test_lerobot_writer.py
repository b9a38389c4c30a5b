"""What we write is what LeRobot writes, and what we read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import oatkit
from oatkit.data import lerobot_writer
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from tests.data import datasets
from tests.data.datasets import CAMERA, make_demos

# The columns of LeRobot 0.4.4's own meta/episodes files, without the statistics.
EPISODE_COLUMNS = {
    "episode_index": "int64",
    "tasks": "list<element: string>",
    "length": "int64",
    "data/chunk_index": "int64",
    "data/file_index": "int64",
    "dataset_from_index": "int64",
    "dataset_to_index": "int64",
    f"videos/{CAMERA}/chunk_index": "int64",
    f"videos/{CAMERA}/file_index": "int64",
    f"videos/{CAMERA}/from_timestamp": "double",
    f"videos/{CAMERA}/to_timestamp": "double",
    "meta/episodes/chunk_index": "int64",
    "meta/episodes/file_index": "int64",
}
STATISTICS = {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}
FEATURES = ["observation.state", "action", CAMERA, "timestamp", "frame_index", "episode_index"]


def schema_of(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in pq.read_schema(path)}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return datasets.write_lerobot_v3(tmp_path / "d", make_demos(), codec="h264")


def test_the_files_are_lerobots(written: Path) -> None:
    files = sorted(str(p.relative_to(written)) for p in written.rglob("*") if p.is_file())
    assert files == [
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        f"videos/{CAMERA}/chunk-000/file-000.mp4",
    ]


def test_data_columns_types_and_row_groups(written: Path) -> None:
    path = written / "data/chunk-000/file-000.parquet"
    assert schema_of(path) == {
        "observation.state": "fixed_size_list<element: float>[2]",
        "action": "fixed_size_list<element: float>[3]",
        "timestamp": "float",
        "frame_index": "int64",
        "episode_index": "int64",
        "index": "int64",
        "task_index": "int64",
    }
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(g).num_rows for g in range(3)] == [12, 7, 20]
    described = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
    assert described["action"] == {
        "feature": {"dtype": "float32", "_type": "Value"},
        "length": 3,
        "_type": "List",
    }
    table = file.read()
    np.testing.assert_array_equal(table["index"], np.arange(39))
    np.testing.assert_allclose(table["timestamp"].to_numpy()[12:19], np.arange(7) / 10, rtol=1e-6)


def test_episode_columns_and_places(written: Path) -> None:
    path = written / "meta/episodes/chunk-000/file-000.parquet"
    schema = schema_of(path)
    own = {k: v for k, v in schema.items() if not k.startswith("stats/")}
    assert own == EPISODE_COLUMNS
    for key in [*FEATURES, "index", "task_index"]:
        found = {k.rsplit("/", 1)[1] for k in schema if k.startswith(f"stats/{key}/")}
        assert found == STATISTICS
    assert schema[f"stats/{CAMERA}/mean"].count("list") == 3
    rows = pq.read_table(path).to_pylist()
    assert [(r["dataset_from_index"], r["dataset_to_index"]) for r in rows] == [
        (0, 12),
        (12, 19),
        (19, 39),
    ]
    np.testing.assert_allclose([r[f"videos/{CAMERA}/from_timestamp"] for r in rows], [0, 1.2, 1.9])


def test_tasks_are_a_frame_indexed_by_text(tmp_path: Path) -> None:
    demos = [replace(d, task=t) for d, t in zip(make_demos(), "bab", strict=True)]
    root = datasets.write_lerobot_v3(tmp_path / "d", demos)
    table = pq.read_table(root / "meta/tasks.parquet")
    assert table.to_pydict() == {"task_index": [0, 1], "__index_level_0__": ["b", "a"]}
    pandas = json.loads(table.schema.metadata[b"pandas"])
    assert pandas["index_columns"] == ["__index_level_0__"]


def test_info_has_lerobots_keys_in_its_order(written: Path) -> None:
    info = json.loads((written / "meta/info.json").read_text())
    assert list(info) == [
        "codebase_version",
        "robot_type",
        "total_episodes",
        "total_frames",
        "total_tasks",
        "chunks_size",
        "data_files_size_in_mb",
        "video_files_size_in_mb",
        "fps",
        "splits",
        "data_path",
        "video_path",
        "features",
    ]
    assert (info["codebase_version"], info["total_frames"], info["fps"]) == ("v3.0", 39, 10)
    assert list(info["features"])[:3] == FEATURES[:3]
    assert info["features"][CAMERA]["info"] == {
        "video.height": 48,
        "video.width": 64,
        "video.codec": "h264",
        "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False,
        "video.fps": 10,
        "video.channels": 3,
        "has_audio": False,
    }


def test_statistics_are_those_of_all_frames(written: Path) -> None:
    stats = json.loads((written / "meta/stats.json").read_text())
    assert all(set(values) == STATISTICS for values in stats.values())
    actions = np.concatenate([d.actions for d in make_demos()]).astype(np.float64)
    found = {name: np.array(values) for name, values in stats["action"].items()}
    np.testing.assert_allclose(found["mean"], actions.mean(axis=0))
    np.testing.assert_allclose(found["std"], actions.std(axis=0))
    np.testing.assert_allclose(found["q10"], np.quantile(actions, 0.1, axis=0))
    assert found["count"] == [39]
    shades = np.concatenate([d.images()[:, 0, 0, 0] for d in make_demos()]) / 255
    np.testing.assert_allclose(np.ravel(stats[CAMERA]["mean"]), [shades.mean()] * 3, atol=0.01)
    np.testing.assert_allclose(np.ravel(stats[CAMERA]["std"]), [shades.std()] * 3, atol=0.01)
    assert np.shape(stats[CAMERA]["q50"]) == (3, 1, 1)


def test_files_are_split_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lerobot_writer, "DATA_FILE_MB", 0)
    monkeypatch.setattr(lerobot_writer, "VIDEO_FILE_MB", 0)
    monkeypatch.setattr(lerobot_writer, "FILES_PER_CHUNK", 2)
    demos = make_demos()
    root = datasets.write_lerobot_v3(tmp_path / "d", demos, codec="h264")
    assert sorted(p.name for p in (root / "data").rglob("*.parquet")) == [
        "file-000.parquet",
        "file-000.parquet",
        "file-001.parquet",
    ]
    dataset = oatkit.open_dataset(root)
    for episode, demo in zip(dataset, demos, strict=True):
        np.testing.assert_array_equal(episode.actions, demo.actions)
        error = np.abs(episode.images("front", [4]).astype(int) - demo.images()[4])
        assert error.mean() < 1.5


def test_nothing_is_a_dataset_before_close(tmp_path: Path) -> None:
    writer = LeRobotWriter(tmp_path / "d", fps=10, features={"action": Feature((2,))})
    writer.add_episode({"action": np.zeros((4, 2))}, task="t")
    with pytest.raises(oatkit.DatasetError, match="no known dataset format"):
        oatkit.open_dataset(tmp_path / "d")
    writer.close()
    assert oatkit.open_dataset(tmp_path / "d").num_frames == 4


def test_wrong_episodes(tmp_path: Path) -> None:
    writer = LeRobotWriter(tmp_path / "d", fps=10, features={"action": Feature((2,))})
    with pytest.raises(ValueError, match=r"no episode was added"):
        writer.close()
    with pytest.raises(ValueError, match=r"columns \['actions'\] .* expected \['action'\]"):
        writer.add_episode({"actions": np.zeros((4, 2))}, task="t")
    with pytest.raises(ValueError, match="'action' of episode 0 is not finite"):
        writer.add_episode({"action": np.array([[0, np.nan]])}, task="t")
