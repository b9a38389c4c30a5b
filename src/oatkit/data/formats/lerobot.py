"""LeRobot v2.0, v2.1 and v3.0, read from their parquet files without LeRobot.

`lerobot_meta.py` reads what `meta/` says; here are the numbers and images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oatkit.data.episode_numbers import indices_of
from oatkit.data.formats.encoded_image import decode_image
from oatkit.data.formats.lerobot_meta import (
    INFO_PATH,
    read_declared_actions,
    read_info,
    read_places,
    read_tasks,
)
from oatkit.data.formats.parquet_files import as_rectangle, first_bad_row, open_parquet, read_rows
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.source import Camera, Feature, Opening
from oatkit.errors import DatasetError, unknown_name
from oatkit.types.observation_keys import IMAGES, STATE

ROWS_PER_BATCH = 16_384
NUMBERS = ("float", "double", "halffloat", "int", "uint", "bool")
NOT_FEATURES = {"frame_index", "episode_index", "index", "task_index"}


class LeRobot:
    """A LeRobot dataset folder; see `oatkit.data.source.Source`.

    Args:
        root: Folder with `meta/`, `data/` and `videos/`.
        opening: Fetches files of a hub dataset, and says which episodes are wanted of one.
    """

    def __init__(self, root: Path, opening: Opening) -> None:
        self.root = root
        self._fetch = opening.fetch
        info = read_info(root)
        with errors_naming(root / INFO_PATH):
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
                key.removeprefix(IMAGES).removeprefix("observation."): key
                for key, feature in described.items()
                if feature["dtype"] in ("image", "video")
            }
            self._is_video = {
                name: described[key]["dtype"] == "video" for name, key in self._camera_keys.items()
            }
            is_v3 = version.startswith("v3.")
            self._episodes = read_places(root, info, self._video_keys(), is_v3=is_v3)
            self.cameras = {
                name: self._camera(name, described[key]) for name, key in self._camera_keys.items()
            }
        if self._fetch is not None and opening.episodes is not None:
            wanted = indices_of(opening.episodes, self._episodes.numbers, root)
            self._episodes = self._episodes.of_files_with(wanted)
            for name in self._episodes.data_files:
                self._local(name)
        self.episode_lengths = self._episodes.lengths
        self.episode_numbers = self._episodes.numbers
        numbered_tasks = read_tasks(root, is_v3=is_v3)
        self.tasks = list(numbered_tasks.values())
        self._task_places = {number: place for place, number in enumerate(numbered_tasks)}
        self.action_keys: tuple[str, ...] = ("action",)
        self.state_keys: tuple[str, ...] = (STATE,) if STATE in self.features else ()
        self.declared_actions = read_declared_actions(root)
        self._row_starts = np.concatenate([[0], np.cumsum(self.episode_lengths)])

    def files(self) -> Sequence[Path]:
        return [self.root / name for name in self._episodes.data_files]

    def file_of(self, episode: int) -> Path:
        return self.root / self._episodes.data_files[self._episodes.data_file_of[episode]]

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        size = self.features[key].size
        for first_row, column in self._batches(key):
            with errors_naming(self.file_of(self._place(first_row)[0]), key):
                rows = as_rectangle(column, size)
            if rows is None:
                episode, frame = self._place(first_row + first_bad_row(column, size))
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
        cells = read_rows(path, self._camera_keys[camera], row + frames)
        images = []
        for frame, cell in zip(frames, cells, strict=True):
            where = f"camera {camera!r}, episode {self.episode_numbers[episode]} frame {frame}"
            with errors_naming(path, where):
                images.append(decode_image(cell["bytes"]))
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
            with errors_naming(path), open_parquet(path) as file:
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


def _feature(described: dict[str, Any]) -> Feature:
    shape = tuple(described["shape"]) or (1,)
    return Feature(shape, _names(described.get("names"), Feature(shape).size), described["dtype"])


def _names(names: Any, size: int) -> tuple[str, ...] | None:
    """The name of each number; None where their count is not that of the numbers."""
    flat = tuple(_flat_names(names))
    return flat if len(flat) == size else None


def _flat_names(names: Any) -> Iterator[str]:
    """LeRobot writes names as a list, a list in a list, a dict of lists, or names to indices."""
    if isinstance(names, dict):
        if names and all(isinstance(index, int) for index in names.values()):
            yield from sorted(map(str, names), key=lambda name: names[name])
        else:
            for group in names.values():
                yield from _flat_names(group)
    elif isinstance(names, list):
        for name in names:
            yield from _flat_names(name) if isinstance(name, list | dict) else [str(name)]
