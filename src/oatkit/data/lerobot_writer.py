"""Writes LeRobot v3.0 datasets, file by file as LeRobot 0.4 does, without LeRobot.

meta/info.json                            what the columns are, and how many
meta/stats.json                           statistics of every column over all frames
meta/tasks.parquet                        task text -> task_index
meta/episodes/chunk-000/file-000.parquet  where each episode is, and its statistics
data/chunk-000/file-000.parquet           the numbers, one row group an episode
videos/<camera>/chunk-000/file-000.mp4    the images, episodes joined
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oatkit.data.source import Feature

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-000/file-000.parquet"
FILES_PER_CHUNK = 1000
DATA_FILE_MB = 100
VIDEO_FILE_MB = 200
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
MAX_IMAGES_FOR_STATISTICS = 100
MAX_ROWS_READ_BACK = 2**20
BOOKKEEPING = {
    "timestamp": Feature((1,), dtype="float32"),
    "frame_index": Feature((1,), dtype="int64"),
    "episode_index": Feature((1,), dtype="int64"),
    "index": Feature((1,), dtype="int64"),
    "task_index": Feature((1,), dtype="int64"),
}

Columns = dict[str, NDArray[Any]]


@dataclass
class _FileSlot:
    """Which numbered file is being filled."""

    number: int = 0

    @property
    def indices(self) -> dict[str, int]:
        chunk, file = divmod(self.number, FILES_PER_CHUNK)
        return {"chunk_index": chunk, "file_index": file}


@dataclass
class _VideoFile:
    """The episodes that will be joined into the current mp4 of one camera."""

    slot: _FileSlot = field(default_factory=_FileSlot)
    paths: list[Path] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    num_bytes: int = 0


class LeRobotWriter:
    """Appends episodes to a new dataset folder; nothing reads as a dataset before `close`.

    `meta/info.json`, by which a dataset is recognized, is written last.

    Args:
        root: The folder to make; it must not exist yet.
        fps: Frames a second, which LeRobot wants to be an integer.
        features: Columns of `add_episode`, each a vector.
        cameras: Camera key, such as `observation.images.front`, to (height, width).
        robot_type: Free text for `info.json`.
    """

    def __init__(
        self,
        root: Path,
        *,
        fps: int,
        features: Mapping[str, Feature],
        cameras: Mapping[str, tuple[int, int]] | None = None,
        robot_type: str | None = None,
    ) -> None:
        self.root = Path(root)
        self.root.mkdir(parents=True)
        self._fps = fps
        self._features = dict(features) | BOOKKEEPING
        self._cameras = dict(cameras or {})
        self._robot_type = robot_type
        self._tasks: dict[str, int] = {}
        self._episodes: list[dict[str, Any]] = []
        self._num_frames = 0
        self._schema = _data_schema(self._features)
        self._data_slot = _FileSlot()
        self._data_file: pq.ParquetWriter | None = None
        self._videos = {camera: _VideoFile() for camera in self._cameras}
        self._video_info: dict[str, dict[str, object]] = {}

    def add_episode(
        self,
        columns: Mapping[str, NDArray[Any]],
        *,
        task: str,
        videos: Mapping[str, Path] | None = None,
    ) -> None:
        """Append one episode.

        Args:
            columns: Rows of every feature, (frames, size).
            task: The instruction.
            videos: An mp4 of exactly this episode for every camera; it must stay until `close`.
        """
        own = self._features.keys() - BOOKKEEPING.keys()
        if columns.keys() != own or (videos or {}).keys() != self._cameras.keys():
            raise ValueError(
                f"an episode has columns {sorted(columns)} and cameras {sorted(videos or {})}, "
                f"expected {sorted(own)} and {sorted(self._cameras)}"
            )
        length = len(next(iter(columns.values())))
        for key, values in columns.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{key!r} of episode {len(self._episodes)} is not finite")
        rows = self._complete(columns, length, self._tasks.setdefault(task, len(self._tasks)))
        where: dict[str, Any] = {"data": self._write_rows(rows, length)}
        statistics: dict[str, Any] = {key: _statistics(values) for key, values in rows.items()}
        for camera, path in (videos or {}).items():
            where[f"videos/{camera}"] = self._queue_video(camera, path, length)
            statistics[camera] = self._image_statistics(path, length)
        self._episodes.append(
            {
                "episode_index": len(self._episodes),
                "tasks": [task],
                "length": length,
                **{f"{place}/{k}": v for place, at in where.items() for k, v in at.items()},
                "dataset_from_index": self._num_frames,
                "dataset_to_index": self._num_frames + length,
                **{f"stats/{key}/{k}": v for key, s in statistics.items() for k, v in s.items()},
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
        )
        self._num_frames += length

    def close(self) -> None:
        """Write what describes the dataset; only now it can be opened."""
        if not self._episodes:
            raise ValueError(f"no episode was added to {self.root}")
        self._close_data_file()
        for camera in self._cameras:
            self._join_videos(camera)
        self._write_tasks()
        episodes_path = self.root / EPISODES_PATH
        episodes_path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._episodes), episodes_path)
        _write_json(self.root / "meta/stats.json", self._total_statistics())
        _write_json(self.root / "meta/info.json", self._info())

    def _complete(self, columns: Mapping[str, NDArray[Any]], length: int, task: int) -> Columns:
        frames = np.arange(length)
        rows = dict(columns) | {
            "timestamp": frames / self._fps,
            "frame_index": frames,
            "episode_index": np.full(length, len(self._episodes)),
            "index": self._num_frames + frames,
            "task_index": np.full(length, task),
        }
        return {
            key: np.asarray(rows[key], feature.dtype).reshape(length, feature.size)
            for key, feature in self._features.items()
        }

    def _write_rows(self, rows: Columns, length: int) -> dict[str, int]:
        if self._data_file is None:
            path = self.root / DATA_PATH.format(**self._data_slot.indices)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._data_file = pq.ParquetWriter(path, self._schema)
        indices = self._data_slot.indices
        arrays = [_to_arrow(rows[f.name], f.type) for f in self._schema]
        self._data_file.write_table(
            pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=length
        )
        if (self.root / DATA_PATH.format(**indices)).stat().st_size >= DATA_FILE_MB * 2**20:
            self._close_data_file()
        return indices

    def _close_data_file(self) -> None:
        if self._data_file is not None:
            self._data_file.close()
            self._data_file = None
            self._data_slot.number += 1

    def _queue_video(self, camera: str, path: Path, length: int) -> dict[str, float]:
        video = self._videos[camera]
        num_bytes = path.stat().st_size
        if video.paths and video.num_bytes + num_bytes >= VIDEO_FILE_MB * 2**20:
            self._join_videos(camera)
            video = self._videos[camera]
        start = sum(video.lengths)
        video.paths.append(path)
        video.lengths.append(length)
        video.num_bytes += num_bytes
        return {
            **video.slot.indices,
            "from_timestamp": start / self._fps,
            "to_timestamp": (start + length) / self._fps,
        }

    def _join_videos(self, camera: str) -> None:
        from oatkit.data.video import concatenate_videos, describe_video

        video = self._videos[camera]
        out = self.root / VIDEO_PATH.format(video_key=camera, **video.slot.indices)
        out.parent.mkdir(parents=True, exist_ok=True)
        concatenate_videos(video.paths, out, num_frames=video.lengths)
        self._video_info.setdefault(camera, describe_video(out))
        self._videos[camera] = _VideoFile(_FileSlot(video.slot.number + 1))

    def _image_statistics(self, path: Path, length: int) -> dict[str, Any]:
        """Statistics of each color channel in [0, 1], (3, 1, 1), over frames at even distances."""
        from oatkit.data.video import read_frames

        count = min(length, MAX_IMAGES_FOR_STATISTICS)
        frames = np.linspace(0, length - 1, count).round()
        images_NHWC = read_frames(path, frames / self._fps, fps=self._fps)
        step = max(1, min(images_NHWC.shape[1:3]) // 150)
        pixels_N3 = images_NHWC[:, ::step, ::step].reshape(-1, 3) / 255.0
        statistics = _statistics(pixels_N3) | {"count": [count]}
        return {
            k: v if k == "count" else [[[channel]] for channel in v] for k, v in statistics.items()
        }

    def _total_statistics(self) -> dict[str, dict[str, Any]]:
        """Statistics of all episodes as LeRobot pools them, but quantiles of numbers are exact, or
        of every n-th row of more than `MAX_ROWS_READ_BACK`."""
        pooled = {key: self._pool(key) for key in (*self._features, *self._cameras)}
        step = -(-self._num_frames // MAX_ROWS_READ_BACK)
        for key in self._features:
            rows = np.concatenate([rows[::step].copy() for rows in self._read_back(key)])
            pooled[key] |= _quantiles(rows)
        return pooled

    def _pool(self, key: str) -> dict[str, Any]:
        stack = {
            name: np.asarray([e[f"stats/{key}/{name}"] for e in self._episodes])
            for name in ("min", "max", "mean", "std", "count", *QUANTILES)
        }
        count = stack["count"]
        weight = (count / count.sum()).reshape(-1, *(1,) * (stack["mean"].ndim - 1))
        mean = (weight * stack["mean"]).sum(axis=0)
        variance = (weight * (stack["std"] ** 2 + (stack["mean"] - mean) ** 2)).sum(axis=0)
        values = {
            "min": stack["min"].min(axis=0),
            "max": stack["max"].max(axis=0),
            "mean": mean,
            "std": np.sqrt(variance),
            "count": count.sum(axis=0),
            **{q: (weight * stack[q]).sum(axis=0) for q in QUANTILES},
        }
        return {name: value.tolist() for name, value in values.items()}

    def _read_back(self, key: str) -> Iterator[NDArray[Any]]:
        """The rows of a column, file after file."""
        for number in range(self._data_slot.number):
            path = self.root / DATA_PATH.format(**_FileSlot(number).indices)
            column = pq.read_table(path, columns=[key]).column(key).combine_chunks()
            flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
            yield flat.to_numpy().reshape(len(column), -1)

    def _write_tasks(self) -> None:
        """Write the tasks as pandas writes a frame indexed by text, which is what LeRobot reads."""
        names = pa.array(list(self._tasks), pa.large_string())
        table = pa.table({"task_index": list(range(len(names))), "__index_level_0__": names})
        described = {
            "index_columns": ["__index_level_0__"],
            "column_indexes": [],
            "columns": [
                _pandas_column("task_index", "task_index", "int64", "int64"),
                _pandas_column(None, "__index_level_0__", "unicode", "object"),
            ],
            "attributes": {},
            "creator": {"library": "pyarrow", "version": pa.__version__},
            "pandas_version": "2.2.3",
        }
        (self.root / "meta").mkdir(exist_ok=True)
        pq.write_table(
            table.replace_schema_metadata({"pandas": json.dumps(described)}),
            self.root / "meta/tasks.parquet",
        )

    def _info(self) -> dict[str, Any]:
        cameras = {
            camera: {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
                "info": self._video_info[camera],
            }
            for camera, (height, width) in self._cameras.items()
        }
        numbers = {
            key: {"dtype": f.dtype, "shape": list(f.shape), "names": f.names and list(f.names)}
            for key, f in self._features.items()
        }
        own = {key: numbers[key] for key in numbers if key not in BOOKKEEPING}
        return {
            "codebase_version": "v3.0",
            "robot_type": self._robot_type,
            "total_episodes": len(self._episodes),
            "total_frames": self._num_frames,
            "total_tasks": len(self._tasks),
            "chunks_size": FILES_PER_CHUNK,
            "data_files_size_in_mb": DATA_FILE_MB,
            "video_files_size_in_mb": VIDEO_FILE_MB,
            "fps": self._fps,
            "splits": {"train": f"0:{len(self._episodes)}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._cameras else None,
            "features": own | cameras | {key: numbers[key] for key in BOOKKEEPING},
        }


def _data_schema(features: Mapping[str, Feature]) -> pa.Schema:
    """The arrow types, and the description that the `datasets` library reads."""
    fields = []
    described: dict[str, Any] = {}
    for key, feature in features.items():
        value = pa.from_numpy_dtype(feature.dtype)
        described_value = {"dtype": feature.dtype, "_type": "Value"}
        if feature.shape == (1,):
            fields.append(pa.field(key, value))
            described[key] = described_value
        else:
            fields.append(pa.field(key, pa.list_(value, feature.size)))
            described[key] = {
                "feature": described_value,
                "length": feature.size,
                "_type": "List",
            }
    metadata = {"huggingface": json.dumps({"info": {"features": described}})}
    return pa.schema(fields, metadata=metadata)


def _to_arrow(rows_NA: NDArray[Any], kind: pa.DataType) -> pa.Array:
    flat = pa.array(rows_NA.reshape(-1))
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(flat, type=kind)
    return flat


def _statistics(rows_NA: NDArray[Any]) -> dict[str, Any]:
    """LeRobot's per-episode statistics of (frames, size) numbers, as lists."""
    return {
        "min": rows_NA.min(axis=0).tolist(),
        "max": rows_NA.max(axis=0).tolist(),
        "mean": rows_NA.mean(axis=0, dtype=np.float64).tolist(),
        "std": rows_NA.std(axis=0, dtype=np.float64).tolist(),
        "count": [len(rows_NA)],
        **_quantiles(rows_NA),
    }


def _quantiles(rows_NA: NDArray[Any]) -> dict[str, list[float]]:
    values = np.quantile(rows_NA.astype(np.float64), list(QUANTILES.values()), axis=0)
    return {name: value.tolist() for name, value in zip(QUANTILES, values, strict=True)}


def _pandas_column(name: str | None, field_name: str, kind: str, dtype: str) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": field_name,
        "pandas_type": kind,
        "numpy_type": dtype,
        "metadata": None,
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False))
