"""What every dataset format gives the rest of oatkit: columns of numbers, images, tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Fetch = Callable[[str], Path]
"""Brings a file of a hub dataset that is not on disk yet, by its name in the dataset."""


@dataclass(frozen=True)
class Feature:
    """A column of numbers: `shape` of one frame's value, and a name per number if known."""

    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    dtype: str = "float32"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Camera:
    """An image stream; `missing` is the first file that is declared but absent, if any."""

    height: int
    width: int
    missing: Path | None = None
    missing_episode: int | None = None


class Source(Protocol):
    """One opened dataset on disk. A format is a class with this surface and nothing else.

    Frames are rows: episode after episode, in the order of `episode_lengths`.
    """

    format: str
    root: Path
    fps: float | None
    features: dict[str, Feature]
    cameras: dict[str, Camera]
    tasks: list[str]
    episode_lengths: NDArray[np.int64]
    episode_numbers: NDArray[np.int64]
    """What the files call each episode; 0, 1, 2, ... unless some are missing."""
    action_keys: tuple[str, ...]
    """What is read as the action unless the user says otherwise; concatenated."""
    state_keys: tuple[str, ...]
    """What is read as the state; empty where the dataset has none."""

    def files(self) -> Sequence[Path]:
        """The files that hold the numbers; their sizes and times identify the dataset."""

    def file_of(self, episode: int) -> Path:
        """Where the numbers of `episode` are, for error messages."""

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        """The rows of one feature, in blocks of (rows, size), in order."""

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        """For every row the index of its task in `tasks`, in blocks of (rows,)."""

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """The asked `frames` of one episode, (frames, height, width, 3); decodes only those."""
