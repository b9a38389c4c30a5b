"""RLDS and Open X-Embodiment: episodes of TensorFlow Datasets in TFRecord files, read without it.

A record is one whole episode, so files can only be read from front to back. When a dataset is
first opened, every record's checksum is compared and its place and length are kept in the cache;
from then on any episode and any image is found directly.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oatkit.data.formats.encoded_image import decode_image
from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.formats.rlds_features import STEPS, StepFeatures, read_features
from oatkit.data.formats.rlds_index import find_episodes
from oatkit.data.formats.tf_example import byte_spans, feature_spans, read_numbers
from oatkit.data.formats.tfrecord import Span, map_file
from oatkit.data.source import Camera, Opening
from oatkit.errors import DatasetError, unknown_name

FILE_NAME = re.compile(r".+-(?P<split>[^-]+)\.tfrecord-(?P<number>\d+)-of-(?P<count>\d+)")
ACTION_KEYS = (
    ("action",),
    ("action/world_vector", "action/rotation_delta", "action/gripper_closedness_action"),  # RT-1
)
STATE_KEYS = (
    ("observation/state",),
    ("observation/proprio",),
    ("observation/joint_position", "observation/gripper_position"),  # DROID
    ("observation/base_pose_tool_reached", "observation/gripper_closed"),  # RT-1
)
INSTRUCTIONS = ("language_instruction", "natural_language_instruction", "instruction", "task")
"""Last parts of the names of texts that are the task, the first there counts."""


class Rlds:
    """A version folder of an RLDS dataset, or one of its files; see `oatkit.data.source.Source`.

    Args:
        root: Folder with `features.json` and TFRecord files, or one such file.
        opening: Where the places of the episodes are kept.
    """

    format = "RLDS"
    fps: float | None = None

    def __init__(self, root: Path, opening: Opening) -> None:
        self.root = root
        folder = root.parent if root.is_file() else root
        self._paths = [root] if root.is_file() else _record_files(root)
        self._described = read_features(folder)
        self.features = self._described.numbers
        self._instruction = _instruction(self._described.texts)
        self._counted = _counted(self._described)
        about = f"{self._counted}\0{self._instruction}"
        self._index = find_episodes(self._paths, self._measure, about, opening)
        self.episode_lengths = self._index.lengths
        self.episode_numbers = np.arange(len(self._index.lengths))
        self.tasks = self._index.tasks or [folder.parent.name]
        self._image_keys = {key.removeprefix("observation/"): key for key in self._described.images}
        self.cameras = {name: self._camera(name) for name in self._image_keys}
        self.action_keys = self._first_known(ACTION_KEYS) or ACTION_KEYS[0]
        self.state_keys = self._first_known(STATE_KEYS)

    def files(self) -> Sequence[Path]:
        return self._paths

    def file_of(self, episode: int) -> Path:
        return self._paths[self._index.file_of[episode]]

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        size = self.features[key].size
        for episode, length in enumerate(self.episode_lengths):
            path = self.file_of(episode)
            with errors_naming(path, f"{key!r} of episode {episode}"):
                rows = self._numbers(episode, key)
            if rows.size != length * size:
                raise DatasetError(
                    f"{path}: {key!r} of episode {episode} has {rows.size} numbers, expected "
                    f"{length} rows of {size}"
                )
            yield rows.reshape(-1, size)

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        places = {task: place for place, task in enumerate(self.tasks)}
        for episode, length in enumerate(self.episode_lengths):
            if self._instruction is None:
                yield np.zeros(length, np.int32)
            else:
                texts = self._bytes(episode, self._instruction)
                yield np.array([places[str(text, "utf-8")] for text in texts], np.int32)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        path = self.file_of(episode)
        images = []
        for frame in frames:
            with errors_naming(path, f"camera {camera!r}, episode {episode} frame {frame}"):
                (encoded,) = self._bytes(episode, self._image_keys[camera], [int(frame)])
                images.append(decode_image(encoded))
        return np.stack(images)

    def _measure(self, data: memoryview, record: Span) -> tuple[int, Iterable[str]]:
        """The number of steps of a record, and its instructions."""
        spans = feature_spans(data, record)
        key = self._counted
        numbers = read_numbers(data, spans[f"{STEPS}/{key}"])
        length, rest = divmod(len(numbers), self.features[key].size)
        if rest:
            raise ValueError(f"{len(numbers)} numbers of {key!r} are no whole steps")
        if self._instruction is None:
            return length, ()
        texts = byte_spans(data, spans[f"{STEPS}/{self._instruction}"])
        if len(texts) != length:
            raise ValueError(f"{len(texts)} texts {self._instruction!r} for {length} steps")
        return length, {str(data[start:end], "utf-8") for start, end in texts}

    def _numbers(self, episode: int, key: str) -> NDArray[np.float32]:
        encoding = self._described.encodings.get(key)
        if encoding is None:
            path, record = self._place(episode)
            numbers = read_numbers(map_file(path), _step_feature(path, record, key))
            return numbers.astype(np.float32, copy=False)
        values = self._bytes(episode, key)
        joined = b"".join(zlib.decompress(v) if encoding == "zlib" else v for v in values)
        return np.frombuffer(joined, self.features[key].dtype).astype(np.float32, copy=False)

    def _bytes(self, episode: int, key: str, steps: Sequence[int] | None = None) -> list[bytes]:
        """The byte strings of one column, at some steps or at all."""
        path, record = self._place(episode)
        spans = _step_bytes(path, path.stat().st_mtime_ns, record, key)
        if len(spans) != self.episode_lengths[episode]:
            raise ValueError(f"{len(spans)} values for {self.episode_lengths[episode]} steps")
        chosen = spans if steps is None else [spans[step] for step in steps]
        data = map_file(path)
        return [bytes(data[start:end]) for start, end in chosen]

    def _place(self, episode: int) -> tuple[Path, Span]:
        start, end = self._index.spans[episode]
        return self.file_of(episode), (int(start), int(end))

    def _camera(self, name: str) -> Camera:
        """The size of a camera; of its first image where `features.json` leaves it open."""
        height, width = self._described.images[self._image_keys[name]]
        if height is None or width is None:
            height, width = self.read_images(name, 0, np.zeros(1, np.int64)).shape[1:3]
        return Camera(height, width)

    def _first_known(self, choices: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return next((keys for keys in choices if all(k in self.features for k in keys)), ())


def _record_files(folder: Path) -> list[Path]:
    """The TFRecord files of a folder, split after split; warns where some are missing."""
    splits: dict[tuple[str, int], list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        matched = FILE_NAME.fullmatch(path.name)
        if matched:
            splits[matched["split"], int(matched["count"])].append(path)
    if not splits:
        raise DatasetError(
            f"{folder} holds no files *.tfrecord-*: of the files of TensorFlow Datasets only those "
            "of the format tfrecord can be read"
        )
    for (split, count), paths in splits.items():
        if len(paths) < count:
            warnings.warn(
                f"{folder} has {len(paths)} of the {count} files of the split {split!r}; the "
                "episodes of the others are missing",
                stacklevel=2,
            )
    return [path for paths in splits.values() for path in paths]


def _counted(described: StepFeatures) -> str:
    """The column whose numbers are counted to find the steps of an episode; a short one if any."""
    plain = [key for key in described.numbers if key not in described.encodings]
    return min(plain, key=lambda key: described.numbers[key].size)


def _instruction(texts: Sequence[str]) -> str | None:
    """The text that is the task."""
    found = {key.split("/")[-1]: key for key in reversed(texts)}
    return next((found[name] for name in INSTRUCTIONS if name in found), None)


def _step_feature(path: Path, record: Span, key: str) -> Span:
    """Where a column lies within a record."""
    spans = feature_spans(map_file(path), record)
    name = f"{STEPS}/{key}"
    if name not in spans:
        raise DatasetError(f"{path}: {unknown_name('column', name, spans)}")
    return spans[name]


@lru_cache(maxsize=256)
def _step_bytes(path: Path, mtime_ns: int, record: Span, key: str) -> list[Span]:
    """Where each byte string of a column lies; many frames of an episode are often asked for."""
    return byte_spans(map_file(path), _step_feature(path, record, key))
