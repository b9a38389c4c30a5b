"""LeRobot v2.0, v2.1 and v3.0, read from their parquet files without LeRobot.

v2.x keeps one parquet and one mp4 per episode; v3.0 joins episodes into larger files and
says in `meta/episodes` where each one lies.
"""

from __future__ import annotations

import ctypes
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oatkit.data.formats.reading import reading
from oatkit.data.source import Camera, Feature, Fetch
from oatkit.errors import DatasetError, MissingExtraError, unknown_name

ROWS_PER_BATCH = 16_384
NUMBERS = ("float", "double", "halffloat", "int", "uint", "bool")
NOT_FEATURES = {"frame_index", "episode_index", "index", "task_index"}


@dataclass(frozen=True)
class _Episodes:
    """Where every episode lies: arrays with one entry an episode."""

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    data_files: list[str]
    """Each data file once, in the order of the rows."""
    data_file_of: NDArray[np.int64]
    """Index into `data_files`."""
    videos: dict[str, list[str]]
    """Camera to the video file of each episode."""
    video_starts_s: dict[str, NDArray[np.float64]]


class LeRobot:
    """A LeRobot dataset folder; see `oatkit.data.source.Source`.

    Args:
        root: The folder with `meta/`, `data/` and `videos/`.
        fetch: Brings a file of the dataset that is not on disk yet (the hub), by relative name.
    """

    def __init__(self, root: Path, fetch: Fetch | None = None) -> None:
        self.root = root
        self._fetch = fetch
        info_path = root / "meta" / "info.json"
        info = _read_json(info_path)
        with reading(info_path):
            version = str(info.get("codebase_version", ""))
            if not version.startswith(("v2.", "v3.")):
                raise DatasetError(
                    f"{root} is LeRobot {version or 'of unknown version'}; v2.0, v2.1 and v3.0 can "
                    "be read: convert it with LeRobot's own scripts"
                )
            self.format = f"LeRobot {version}"
            self.fps: float | None = float(info["fps"])
            described = info["features"]
            self.features = {
                key: _feature(feature)
                for key, feature in described.items()
                if feature["dtype"].rstrip("0123456789") in NUMBERS and key not in NOT_FEATURES
            }
            self._camera_keys = {
                key.removeprefix("observation.images.").removeprefix("observation."): key
                for key, feature in described.items()
                if feature["dtype"] in ("image", "video")
            }
            self._is_video = {
                name: described[key]["dtype"] == "video" for name, key in self._camera_keys.items()
            }
            is_v3 = version.startswith("v3.")
            episodes = (_episodes_v3 if is_v3 else _episodes_v2)(root, info, self._video_keys())
            self._episodes = episodes
            self.cameras = {
                name: self._camera(name, described[key]) for name, key in self._camera_keys.items()
            }
        self.episode_lengths = episodes.lengths
        self.episode_numbers = episodes.numbers
        numbered_tasks = _tasks_v3(root) if is_v3 else _tasks_v2(root)
        self.tasks = list(numbered_tasks.values())
        self._task_places = {number: place for place, number in enumerate(numbered_tasks)}
        self.action_keys: tuple[str, ...] = ("action",)
        has_state = "observation.state" in self.features
        self.state_keys: tuple[str, ...] = ("observation.state",) if has_state else ()
        self._row_starts = np.concatenate([[0], np.cumsum(self.episode_lengths)])

    def files(self) -> Sequence[Path]:
        return [self.root / name for name in self._episodes.data_files]

    def file_of(self, episode: int) -> Path:
        return self.root / self._episodes.data_files[self._episodes.data_file_of[episode]]

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        size = self.features[key].size
        for first_row, column in self._batches(key):
            with reading(self.file_of(self._place(first_row)[0]), key):
                rows = _rectangular(column, size)
            if rows is None:
                episode, frame = self._place(first_row + _first_bad_row(column, size))
                raise DatasetError(
                    f"{self.file_of(episode)}: {key!r} of episode {self.episode_numbers[episode]} "
                    f"frame {frame} is not {size} numbers as meta/info.json says"
                )
            yield rows

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        for first_row, column in self._batches("task_index"):
            numbers = column.to_numpy(zero_copy_only=False)
            distinct, inverse = np.unique(numbers, return_inverse=True)
            index = np.array([self._task_places.get(int(n), -1) for n in distinct])[inverse]
            if (index < 0).any():
                bad = int(np.argmax(index < 0))
                episode, frame = self._place(first_row + bad)
                raise DatasetError(
                    f"{self.file_of(episode)}: episode {self.episode_numbers[episode]} frame "
                    f"{frame} has task_index {numbers[bad]}, which meta/ does not list among its "
                    f"{len(self.tasks)} tasks"
                )
            yield index.astype(np.int32)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        if self._is_video[camera]:
            return self._read_video(camera, episode, frames)
        return self._read_stored_images(camera, episode, frames)

    def _read_video(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        from oatkit.data.video import read_frames

        assert self.fps is not None
        start_s = self._episodes.video_starts_s[camera][episode]
        path = self._local(self._episodes.videos[camera][episode])
        try:
            return read_frames(path, start_s + frames / self.fps, fps=self.fps)
        except DatasetError as error:
            number = self.episode_numbers[episode]
            raise DatasetError(f"camera {camera!r}, episode {number}: {error}") from error

    def _read_stored_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        path = self.file_of(episode)
        first_row, _ = self._rows_of_file(int(self._episodes.data_file_of[episode]))
        row = int(self._row_starts[episode]) - first_row
        cells = _read_rows(path, self._camera_keys[camera], row + frames)
        images = []
        for frame, cell in zip(frames, cells, strict=True):
            where = f"camera {camera!r}, episode {self.episode_numbers[episode]} frame {frame}"
            with reading(path, where):
                images.append(_decode_image(cell["bytes"]))
        return np.stack(images)

    def _rows_of_file(self, index: int) -> tuple[int, int]:
        """First row and end row of a data file, by what `meta/` says."""
        episodes = np.searchsorted(self._episodes.data_file_of, [index, index + 1])
        first, end = self._row_starts[episodes]
        return int(first), int(end)

    def _video_keys(self) -> dict[str, str]:
        return {name: key for name, key in self._camera_keys.items() if self._is_video[name]}

    def _camera(self, name: str, described: dict[str, Any]) -> Camera:
        shape = described["shape"]
        height, width = shape[1:] if shape[0] in (1, 3) and shape[2] not in (1, 3) else shape[:2]
        absent = None
        if self._is_video[name] and self._fetch is None:
            exists = {v: (self.root / v).exists() for v in set(self._episodes.videos[name])}
            absent = next(
                (i for i, v in enumerate(self._episodes.videos[name]) if not exists[v]), None
            )
        if absent is None:
            return Camera(height, width)
        missing = self.root / self._episodes.videos[name][absent]
        return Camera(height, width, missing, int(self._episodes.numbers[absent]))

    def _local(self, name: str) -> Path:
        path = self.root / name
        if not path.exists() and self._fetch is not None:
            return self._fetch(name)
        return path

    def _place(self, row: int) -> tuple[int, int]:
        """Episode and frame of a row of the dataset."""
        episode = int(np.searchsorted(self._row_starts, row, side="right")) - 1
        return episode, row - int(self._row_starts[episode])

    def _batches(self, key: str) -> Iterator[tuple[int, pa.Array]]:
        """(first row, values), file after file, with the number of rows checked."""
        for index, path in enumerate(self.files()):
            row, end = self._rows_of_file(index)
            with reading(path), _open_parquet(path) as file:
                names = file.schema_arrow.names
                for needed in (key, "episode_index"):
                    if needed not in names:
                        raise DatasetError(f"{path}: {unknown_name('column', needed, names)}")
                if file.metadata.num_rows != end - row:
                    raise DatasetError(
                        f"{path} holds {file.metadata.num_rows} rows but meta/ says {end - row}: "
                        "the dataset is incomplete or was edited by hand"
                    )
                for batch in file.iter_batches(ROWS_PER_BATCH, columns=[key, "episode_index"]):
                    self._check_order(path, row, batch.column("episode_index"))
                    yield row, batch.column(key)
                    row += len(batch)

    def _check_order(self, path: Path, first_row: int, column: pa.Array) -> None:
        """Refuse rows that are not where `meta/` puts their episode."""
        rows = np.arange(first_row, first_row + len(column))
        expected = self.episode_numbers[np.searchsorted(self._row_starts, rows, side="right") - 1]
        is_bad = column.to_numpy(zero_copy_only=False) != expected
        if is_bad.any():
            bad = int(np.argmax(is_bad))
            raise DatasetError(
                f"{path}: row {rows[bad]} is of episode {column[bad]}, where meta/ says episode "
                f"{expected[bad]}: the rows are not in the order of the episodes"
            )


def _rectangular(column: pa.Array, size: int) -> NDArray[np.float32] | None:
    """The column as (rows, size), or None when some row is not `size` numbers."""
    values, is_regular = column, not column.null_count
    while _is_list(values.type):
        if not pa.types.is_fixed_size_list(values.type):
            lengths = np.diff(values.offsets.to_numpy())
            is_regular &= bool((lengths == lengths[:1]).all())
        values = values.flatten()
        is_regular &= not values.null_count
    if not is_regular or len(values) != len(column) * size:
        return None
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32)
    return numbers.reshape(len(column), size)


def _first_bad_row(column: pa.Array, size: int) -> int:
    """Which row made `_rectangular` refuse; slow, for the message only."""
    return next(i for i in range(len(column)) if _rectangular(column.slice(i, 1), size) is None)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _feature(described: dict[str, Any]) -> Feature:
    shape = tuple(described["shape"]) or (1,)
    return Feature(shape, _names(described.get("names"), Feature(shape).size), described["dtype"])


def _names(names: Any, size: int) -> tuple[str, ...] | None:
    """LeRobot writes names as a list, or as a dict of one list."""
    if isinstance(names, dict):
        names = [n for group in names.values() for n in (group if isinstance(group, list) else [])]
    if not isinstance(names, list) or len(names) != size:
        return None
    return tuple(str(name) for name in names)


def _tasks_v2(root: Path) -> dict[int, str]:
    path = root / "meta" / "tasks.jsonl"
    rows = _read_json_lines(path)
    with reading(path):
        return {int(row["task_index"]): str(row["task"]) for row in rows}


def _tasks_v3(root: Path) -> dict[int, str]:
    """The text is the table's index, which pandas stores under one of these names."""
    path = root / "meta" / "tasks.parquet"
    with reading(path):
        columns = pq.read_table(path).to_pydict()
        text_key = next(key for key in ("__index_level_0__", "task") if key in columns)
        return dict(zip(columns["task_index"], columns[text_key], strict=True))


def _episodes_v2(root: Path, info: dict[str, Any], video_keys: dict[str, str]) -> _Episodes:
    path = root / "meta" / "episodes.jsonl"
    with reading(path):
        rows = sorted(_read_json_lines(path), key=lambda row: row["episode_index"])
        lengths = np.array([row["length"] for row in rows], np.int64)
    places = [
        {
            "episode_index": row["episode_index"],
            "episode_chunk": row["episode_index"] // info["chunks_size"],
        }
        for row in rows
    ]
    return _Episodes(
        numbers=np.array([row["episode_index"] for row in rows], np.int64),
        lengths=lengths,
        data_files=[info["data_path"].format(**place) for place in places],
        data_file_of=np.arange(len(rows)),
        videos={
            name: [info["video_path"].format(video_key=key, **place) for place in places]
            for name, key in video_keys.items()
        },
        video_starts_s={name: np.zeros(len(rows)) for name in video_keys},
    )


def _episodes_v3(root: Path, info: dict[str, Any], video_keys: dict[str, str]) -> _Episodes:
    paths = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not paths:
        raise DatasetError(f"{root / 'meta' / 'episodes'} holds no parquet file")
    tables = []
    for path in paths:
        with reading(path), _open_parquet(path) as file:
            wanted = [n for n in file.schema_arrow.names if not n.startswith("stats/")]
            tables.append(file.read(columns=wanted))
    with reading(paths[0]):
        table = pa.concat_tables(tables, promote_options="default").sort_by("episode_index")

    def column(key: str) -> NDArray[Any]:
        if key not in table.column_names:
            raise DatasetError(f"{paths[0]}: {unknown_name('column', key, table.column_names)}")
        return table.column(key).to_numpy()

    def places(prefix: str, pattern: str, **more: str) -> list[str]:
        indices = zip(column(f"{prefix}/chunk_index"), column(f"{prefix}/file_index"), strict=True)
        return [pattern.format(chunk_index=int(c), file_index=int(f), **more) for c, f in indices]

    data_files = places("data", info["data_path"])
    unique = list(dict.fromkeys(data_files))
    numbers = {name: i for i, name in enumerate(unique)}
    data_file_of = np.array([numbers[name] for name in data_files], np.int64)
    if (np.diff(data_file_of) < 0).any():
        raise DatasetError(f"{paths[0]}: the episodes are not in the order of the data files")
    return _Episodes(
        numbers=column("episode_index").astype(np.int64),
        lengths=column("length").astype(np.int64),
        data_files=unique,
        data_file_of=data_file_of,
        videos={
            name: places(f"videos/{key}", info["video_path"], video_key=key)
            for name, key in video_keys.items()
        },
        video_starts_s={
            name: column(f"videos/{key}/from_timestamp").astype(np.float64)
            for name, key in video_keys.items()
        },
    )


def _read_rows(path: Path, key: str, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Single cells of one column; reads only the row groups that hold them."""
    with reading(path):
        time_ns = path.stat().st_mtime_ns
        _, group_starts = _row_groups(path, time_ns)
        groups = np.searchsorted(group_starts, rows, side="right") - 1
        return [
            _row_group(path, time_ns, int(g), key)[int(row - group_starts[g])].as_py()
            for g, row in zip(groups, rows, strict=True)
        ]


@contextmanager
def _open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """A file to stream from. Its memory goes back to the system when it is closed.

    Thousands of row groups make a footer of many megabytes of small objects, which the
    allocators would keep.
    """
    with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
        yield file
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


@lru_cache(maxsize=8)
def _row_groups(path: Path, mtime_ns: int) -> tuple[pq.ParquetFile, NDArray[np.int64]]:
    """An open file and the first row of each of its row groups."""
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    return file, np.concatenate([[0], np.cumsum(sizes)])[:-1]


@lru_cache(maxsize=4)
def _row_group(path: Path, mtime_ns: int, group: int, key: str) -> pa.ChunkedArray:
    """One column of one row group; neighboring frames usually share it."""
    return _row_groups(path, mtime_ns)[0].read_row_group(group, columns=[key]).column(key)


def _decode_image(data: bytes) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("data") from error
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _read_json(path: Path) -> dict[str, Any]:
    with reading(path):
        return dict(json.loads(path.read_text()))


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    with reading(path):
        lines = path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.strip()]
