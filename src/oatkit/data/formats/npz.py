"""npz: one file per episode in a folder, or one file with all episodes and `episode_ends`.

Keys of a file:

    action                       (T, A)           required; or `actions`
    observation.state            (T, S)           optional; other number columns likewise
    observation.images.<camera>  (T, H, W, 3)     optional, uint8
    task                         text             optional; one per episode in a single file
    <column>.names               (A,) texts       optional; names of a column's dimensions
    fps                          number           optional
    timestamp                    (T,)             optional, seconds
    episode_ends                 (E,)             single file only: where each episode ends

Nothing is unpickled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.formats.format_table import files_ending_in
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.source import Camera, Feature
from oatkit.data.well_known import find_action
from oatkit.errors import DatasetError, unknown_name
from oatkit.types.observation_keys import IMAGES, STATE

NAMES = ".names"
"""What follows the key of a column in the key of its names."""
NOT_FEATURES = {"task", "fps", "episode_ends"}

Shapes = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and dtype of every array of a file."""


class Npz:
    """A folder of episodes or one file of them; see `oatkit.data.source.Source`."""

    format = "npz"

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paths = files_ending_in(root, ".npz")
        headers = {path: _shapes(path) for path in self._paths}
        num_actions = [_num_actions(path, found) for path, found in headers.items()]
        shapes = headers[self._paths[0]]
        self._is_single = len(self._paths) == 1 and "episode_ends" in shapes
        for path, found in headers.items():
            if "episode_ends" in found and not self._is_single:
                raise DatasetError(
                    f"{path} holds several episodes; a folder takes one episode a file"
                )
        first = _read(self._paths[0], [k for k in NOT_FEATURES if k in shapes])
        with errors_naming(self._paths[0]):
            self.fps = float(first["fps"].item()) if "fps" in first else None
        self.episode_lengths = (
            self._lengths(first["episode_ends"], num_actions[0])
            if self._is_single
            else np.array(num_actions, np.int64)
        )
        self.episode_numbers = np.arange(len(self.episode_lengths))
        self._starts = np.cumsum(self.episode_lengths) - self.episode_lengths
        numbers: dict[str, int] = {}
        texts = self._tasks_of_file(first) if self._is_single else self._tasks_of_files(headers)
        self._task_of = [numbers.setdefault(text, len(numbers)) for text in texts]
        self.tasks = list(numbers)
        self.cameras = {}
        for key in (k for k in shapes if k.startswith(IMAGES)):
            shape, dtype = shapes[key]
            if len(shape) != 4 or shape[3] != 3 or dtype != np.uint8:
                raise DatasetError(
                    f"{self._paths[0]}: {key!r} is {dtype} {shape}, expected uint8 (T, H, W, 3)"
                )
            self.cameras[key.removeprefix(IMAGES)] = Camera(shape[1], shape[2])
        self.features = {
            key: Feature(shape[1:] or (1,), self._names(key, shapes, math.prod(shape[1:])))
            for key, (shape, dtype) in shapes.items()
            if key not in NOT_FEATURES
            and not key.startswith(IMAGES)
            and dtype.kind in "fiub"
            and len(shape) >= 1
        }
        self.action_keys: tuple[str, ...] = (find_action(shapes, self._paths[0]),)
        self.state_keys: tuple[str, ...] = (STATE,) if STATE in self.features else ()

    def files(self) -> Sequence[Path]:
        return self._paths

    def file_of(self, episode: int) -> Path:
        return self._paths[0] if self._is_single or len(self._paths) == 1 else self._paths[episode]

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        size = self.features[key].size
        expected = [int(self.episode_lengths.sum())] if self._is_single else self.episode_lengths
        for episode, (path, length) in enumerate(zip(self._paths, expected, strict=True)):
            rows = _read(path, [key])[key]
            if rows.size != length * size or len(rows) != length:
                raise DatasetError(
                    f"{path}: {key!r} is {rows.shape}, expected {length} rows of {size} "
                    f"(episode {episode})"
                )
            yield rows.astype(np.float32).reshape(length, size)

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        yield np.repeat(np.asarray(self._task_of, np.int32), self.episode_lengths)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        start = self._starts[episode] if self._is_single else 0
        path = self.file_of(episode)
        key = IMAGES + camera
        images = _map_member(path, f"{key}.npy")
        if images is None:  # compressed, so that all of it must be read; or not there
            images = _read(path, [key])[key]
        return np.asarray(images[start + frames], np.uint8)

    def _names(self, key: str, shapes: Shapes, size: int) -> tuple[str, ...] | None:
        """The names of a column's dimensions, if the first file has them."""
        names_key = f"{key}{NAMES}"
        if names_key not in shapes:
            return None
        names = _read(self._paths[0], [names_key])[names_key]
        if names.dtype.kind != "U" or names.shape != (size,):
            raise DatasetError(
                f"{self._paths[0]}: {names_key!r} is {names.dtype} {names.shape}, expected "
                f"{size} texts"
            )
        return tuple(names.tolist())

    def _lengths(self, ends: Any, num_rows: int) -> NDArray[np.int64]:
        """Length of each episode of a single file."""
        is_sound = ends.ndim == 1 and len(ends) > 0 and ends.dtype.kind in "iu"
        lengths = np.diff(ends.astype(np.int64), prepend=0) if is_sound else np.zeros(1, np.int64)
        if not is_sound or (lengths <= 0).any() or lengths.sum() != num_rows:
            raise DatasetError(
                f"{self.root}: episode_ends must be integers that grow and end at the "
                f"{num_rows} rows of 'action'"
            )
        return lengths

    def _tasks_of_file(self, first: dict[str, Any]) -> list[str]:
        """The task of each episode of a single file."""
        texts = np.asarray(first.get("task", self.root.stem))
        if texts.ndim and len(texts) != len(self.episode_lengths):
            raise DatasetError(
                f"{self.root}: {len(texts)} tasks for {len(self.episode_lengths)} episodes"
            )
        return [str(text) for text in np.broadcast_to(texts, len(self.episode_lengths))]

    def _tasks_of_files(self, headers: dict[Path, Shapes]) -> list[str]:
        """The task of each file, by default the name of what was opened."""
        name = self.root.stem if self.root.is_file() else self.root.name
        return [
            str(_read(path, ["task"])["task"]) if "task" in found else name
            for path, found in headers.items()
        ]


def _num_actions(path: Path, shapes: Shapes) -> int:
    key = find_action(shapes, path)
    shape, dtype = shapes[key]
    if dtype.kind not in "fiub":
        raise DatasetError(f"{path}: {key!r} holds {dtype}, expected numbers")
    if not shape or 0 in shape[1:]:
        raise DatasetError(f"{path}: {key!r} has shape {shape}, expected (T, A)")
    if shape[0] == 0:
        raise DatasetError(f"{path} has no actions")
    return shape[0]


def _shapes(path: Path) -> Shapes:
    """Shape and dtype of every array, from the headers alone."""
    found = {}
    with errors_naming(path), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                shape, dtype, _, _ = _header(member)
                found[name.removesuffix(".npy")] = (shape, dtype)
    return found


def _header(member: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read(member)
    return shape, dtype, is_fortran, member.tell()


def _read(path: Path, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    with errors_naming(path), np.load(path, allow_pickle=False) as file:
        missing = next((key for key in keys if key not in file.files), None)
        if missing is not None:
            raise DatasetError(f"{path}: {unknown_name('key', missing, file.files)}")
        return {key: file[key] for key in keys}


def _map_member(path: Path, name: str) -> NDArray[Any] | None:
    """A stored (not compressed) array of the archive, memory-mapped where it lies."""
    with errors_naming(path), zipfile.ZipFile(path) as archive:
        if name not in archive.namelist():
            return None
        member = archive.getinfo(name)
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        with archive.open(name) as opened:
            shape, dtype, is_fortran, header_bytes = _header(opened)
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the local header's name and extra lengths
        name_bytes, extra_bytes = np.frombuffer(file.read(4), "<u2")
    offset = member.header_offset + 30 + int(name_bytes) + int(extra_bytes) + header_bytes
    order = "F" if is_fortran else "C"
    return np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload]
