"""What every dataset format gives to the rest of oatkit: columns of numbers, images, tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Fetch = Callable[[str], Path]
"""Downloads a file of a hub dataset that is not on disk yet, by its name in the dataset."""

Resize = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Gives images (N, height, width, 3) another size, as soon as they are decoded."""


@dataclass(frozen=True)
class Opening:
    """What a format may use while it opens a dataset.

    Attributes:
        cache_dir: Folder for what is computed from a dataset.
        fetch: Downloads a file of a hub dataset; None where all files are there.
        episodes: Numbers of the episodes that are wanted; None for all. A format that can fetches
            only their files. It may open more episodes than these.
        show_progress: Whether to show a bar while files are read.
    """

    cache_dir: Path
    fetch: Fetch | None = None
    episodes: Container[int] | None = None
    show_progress: bool = False


@dataclass(frozen=True)
class Feature:
    """A column of numbers.

    Attributes:
        shape: Shape of one frame's value.
        names: Name of each number, if known.
        dtype: Type of the numbers in the files, as numpy calls it.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    dtype: str = "float32"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Camera:
    """The images of one camera.

    Attributes:
        height: Height of an image in pixels.
        width: Width of an image in pixels.
        missing: First video file that is declared but absent, if any.
        missing_episode: Number of the episode that this file belongs to.
    """

    height: int
    width: int
    missing: Path | None = None
    missing_episode: int | None = None


class Source(Protocol):
    """One opened dataset on disk. A format is a class with these attributes and methods.

    Frames are rows: episode after episode, in the order of `episode_lengths`.

    Attributes:
        format: Name of the format, in words.
        root: Path that was opened.
        fps: Frames a second, None where the files do not say.
        features: Key to every column of numbers.
        cameras: Name to every camera.
        tasks: Distinct instructions.
        episode_lengths: (episodes,) frames of each episode.
        episode_numbers: (episodes,) number of each episode in the files: 0, 1, 2, ... unless some
            are missing.
        action_keys: Columns that are the action unless the user names others; joined side by side.
        state_keys: Columns that are the state; empty where the dataset has no state.
    """

    format: str
    root: Path
    fps: float | None
    features: dict[str, Feature]
    cameras: dict[str, Camera]
    tasks: list[str]
    episode_lengths: NDArray[np.int64]
    episode_numbers: NDArray[np.int64]
    action_keys: tuple[str, ...]
    state_keys: tuple[str, ...]

    def files(self) -> Sequence[Path]:
        """The files that hold the numbers; their sizes and times identify the dataset."""

    def file_of(self, episode: int) -> Path:
        """The file that holds the numbers of `episode`, for error messages."""

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        """The rows of one feature, in blocks of (rows, size), in order."""

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        """The index in `tasks` of every row's task, in blocks of (rows,)."""

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """The asked `frames` of one episode, (frames, height, width, 3); decodes only those."""


@runtime_checkable
class DeclaresActions(Protocol):
    """A dataset that may say itself how its actions are to be represented."""

    @property
    def declared_actions(self) -> str | None:
        """Words of `oatkit.data.action_words`; None where it says nothing."""
