"""A dataset as its users see it: episodes, chunks, splits and statistics."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.action_transform import ActionTransform
from oatkit.data.chunks import Chunks
from oatkit.data.column_cache import ROWS_PER_BLOCK, Column, ColumnCache
from oatkit.data.columns import Table
from oatkit.data.source import Camera, Resize, Source
from oatkit.data.splits import split_episodes
from oatkit.data.statistics import Statistics, compute_statistics
from oatkit.errors import DatasetError, unknown_name
from oatkit.storage.digest import digest

IMAGES_AT_ONCE = 64
"""Images that are read before they are resized."""


class Dataset:
    """Demonstrations: a sequence of episodes over memory-mapped numbers and lazy images.

    Made by `open_dataset`; `split` and `subset` give further ones over the same files.

    Attributes:
        path: File or folder that was opened.
        format: Name of the format, in words.
        fps: Frames a second, if known.
        tasks: Instructions; every frame has one of them.
        cameras: Name to every camera.
        action: Table of the actions; `action.names` are its dimensions.
        state: Table of the states, None where the dataset has no state.
        transform: How actions are represented where something is trained on them; None for as they
            are. Actions are read in raw units all the same.
        episode_ids: (episodes,) index of each episode in the files.
        episode_numbers: (episodes,) number of each episode in the files; the same unless some are
            missing.
        episode_starts: (episodes,) row where each episode begins.
        episode_lengths: (episodes,) frames of each episode.
    """

    def __init__(
        self,
        source: Source,
        cache: ColumnCache,
        *,
        action: Table,
        state: Table | None,
        fps: float | None,
        transform: ActionTransform | None = None,
        episode_ids: NDArray[np.int64] | None = None,
    ) -> None:
        self._source = source
        self._cache = cache
        self.action = action
        self.state = state
        self.fps = fps
        self.transform = transform
        num_episodes = len(source.episode_lengths)
        self.episode_ids = np.arange(num_episodes) if episode_ids is None else episode_ids
        starts = np.cumsum(source.episode_lengths) - source.episode_lengths
        if not len(self.episode_ids):
            raise ValueError(f"no episodes of {source.root} were selected")
        self.episode_numbers = source.episode_numbers[self.episode_ids]
        self.episode_starts = starts[self.episode_ids]
        self.episode_lengths = source.episode_lengths[self.episode_ids]

    @property
    def path(self) -> Path:
        return self._source.root

    @property
    def cache_dir(self) -> Path:
        """The folder where what is computed from the dataset is kept."""
        return self._cache.cache_dir

    @property
    def format(self) -> str:
        return self._source.format

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._source.tasks)

    @property
    def cameras(self) -> dict[str, Camera]:
        return dict(self._source.cameras)

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of all number columns in the files."""
        return tuple(self._source.features)

    @property
    def action_dim(self) -> int:
        return self.action.dim

    @property
    def represented_dim(self) -> int:
        """Number of dimensions of an action as it is represented."""
        return self.action_dim if self.transform is None else self.transform.dim

    @property
    def state_dim(self) -> int:
        return 0 if self.state is None else self.state.dim

    @property
    def num_frames(self) -> int:
        return int(self.episode_lengths.sum())

    @property
    def longest_in_files(self) -> int:
        """The number of frames of the longest episode in the files, those left out included."""
        return int(self._source.episode_lengths.max())

    def __getstate__(self) -> dict[str, Any]:
        """Data loader workers map the files themselves instead of getting the numbers."""
        return {k: v for k, v in self.__dict__.items() if k != "task_index"}

    def __len__(self) -> int:
        """The number of episodes."""
        return len(self.episode_ids)

    def __getitem__(self, index: int) -> Episode:
        """An episode by its index in this dataset."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"episode {index} does not exist: there are {len(self)}")
        return Episode(self, index % len(self))

    def __iter__(self) -> Iterator[Episode]:
        return (Episode(self, i) for i in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Dataset({str(self.path)!r}, {self.format}: {len(self)} episodes, "
            f"{self.num_frames} frames, action {self.action_dim}, state {self.state_dim})"
        )

    def table(self, *keys: str) -> Table:
        """Any number columns of the files side by side, beyond action and state."""
        columns = [(key, self._cache.column(key)) for key in keys]
        return Table([(key, self._source.features[key], column) for key, column in columns])

    def chunks(
        self,
        horizon: int,
        *,
        stride: int = 1,
        history: int = 1,
        cameras: str | Sequence[str] = (),
        resize: Resize | None = None,
    ) -> Chunks:
        """Chunks of actions with the observations before them.

        Args:
            horizon: Number of actions in a chunk.
            stride: Number of frames between the starts of successive chunks.
            history: Number of observations before each chunk, the current one included.
            cameras: Camera or cameras whose images come with every chunk.
            resize: Function that gives images another size; as they are by default.
        """
        return Chunks(
            self, horizon=horizon, stride=stride, history=history, cameras=cameras, resize=resize
        )

    def frame(self, index: int, *, cameras: str | Sequence[str] = ()) -> dict[str, Any]:
        """One frame by its index in this dataset: observation, action and task."""
        return self.chunks(1, cameras=cameras)[index]

    def images(
        self,
        camera: str,
        rows: NDArray[np.int64],
        episodes: NDArray[np.int64],
        resize: Resize | None = None,
    ) -> NDArray[np.uint8]:
        """Images of many episodes at once, (rows, height, width, 3); what `Chunks` uses.

        They are read in the order of the files, and a row that is asked twice is read once. For the
        images of one episode see `Episode.images`.

        Args:
            camera: Name of one of `cameras`.
            rows: (N,) rows of the files: an episode's start plus the frame.
            episodes: (N,) index in this dataset of the episode that each row belongs to.
            resize: Function that gives images another size before there are many of them.
        """
        if camera not in self._source.cameras:
            raise ValueError(unknown_name("camera", camera, self._source.cameras))
        row_U, first_U, place_N = np.unique(rows, return_index=True, return_inverse=True)
        episode_U = episodes[first_U]
        starts = np.flatnonzero(np.diff(episode_U, prepend=-1))
        found = []
        for start, end in zip(starts, [*starts[1:], len(row_U)], strict=True):
            episode = episode_U[start]
            for first in range(start, end, IMAGES_AT_ONCE):
                some = row_U[first : min(end, first + IMAGES_AT_ONCE)]
                frames = some - self.episode_starts[episode]
                images = self._source.read_images(camera, int(self.episode_ids[episode]), frames)
                found.append(images if resize is None else resize(images))
        return np.concatenate(found)[place_N]

    @cached_property
    def task_index(self) -> NDArray[np.int32]:
        """The index in `tasks` of each row's task, (rows of the files,)."""
        return self._cache.task_index().open()

    def split(self, fraction: float = 0.1, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Two datasets: to train on, and held out with `fraction` of the episodes.

        Whether an episode is held out depends on its own actions and the seed, so it does not
        change when the dataset is reordered, and equal episodes are never separated.
        """
        is_held_out = split_episodes(self._digests, fraction=fraction, seed=seed)
        return self.subset(np.flatnonzero(~is_held_out)), self.subset(np.flatnonzero(is_held_out))

    def subset(self, episodes: Sequence[int] | NDArray[np.int64]) -> Dataset:
        """A dataset of some episodes, given by their indices in this one or by a boolean mask."""
        chosen = np.asarray(episodes)
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        return Dataset(
            self._source,
            self._cache,
            action=self.action,
            state=self.state,
            fps=self.fps,
            transform=self.transform,
            episode_ids=self.episode_ids[chosen.astype(np.int64)],
        )

    def represented_as(self, actions: str | Sequence[str] | None) -> Dataset:
        """The same episodes with actions in another representation, such as "relative:0-5".

        Args:
            actions: Words of `oatkit.data.action_words`; None for actions as they are.
        """
        changed = copy.copy(self)
        changed.transform = None
        if actions:
            state_names = () if self.state is None else self.state.names
            found = ActionTransform.parse(actions, self.action.names, state_names)
            changed.transform = found if found.steps or found.turns else None
        return changed

    def action_statistics(self) -> Statistics:
        return self.statistics(self.action)

    def state_statistics(self) -> Statistics:
        if self.state is None:
            raise DatasetError(
                f"{self.path} has no state; name its columns with --state-key (state_key=)"
            )
        return self.statistics(self.state)

    def statistics(self, table: Table) -> Statistics:
        """Statistics of a table over this dataset's episodes."""
        return compute_statistics(lambda: self.blocks(table), dim=table.dim)

    def blocks(self, table: Table) -> Iterator[NDArray[np.float32]]:
        """A table's rows of this dataset's episodes, in blocks of bounded size."""
        for start, end in self._runs():
            for row in range(start, end, ROWS_PER_BLOCK):
                yield table.rows(row, min(end, row + ROWS_PER_BLOCK))

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Row ranges of this dataset, neighboring episodes joined."""
        ends = self.episode_starts + self.episode_lengths
        is_break = np.flatnonzero(self.episode_starts[1:] != ends[:-1]) + 1
        for first, stop in zip([0, *is_break], [*is_break, len(self)], strict=True):
            yield int(self.episode_starts[first]), int(ends[stop - 1])

    @cached_property
    def fingerprint(self) -> str:
        """A digest that changes when the actions, their dimensions or the episodes' order do."""
        return digest(repr((self.action.keys, self.action.dims)).encode(), *self._digests)

    @cached_property
    def _digests(self) -> list[bytes]:
        """A hash of every episode's actions."""
        parts = [self._cache.episode_digests(key)[self.episode_ids] for key in self.action.keys]
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]

    def duplicate_episodes(self) -> list[list[int]]:
        """Groups of episodes with equal actions."""
        groups: dict[bytes, list[int]] = {}
        for episode, content in enumerate(self._digests):
            groups.setdefault(content, []).append(episode)
        return [group for group in groups.values() if len(group) > 1]

    def place(self, row: int) -> tuple[int, int]:
        """Episode (its index in the files) and frame of a row of the files."""
        ends = np.cumsum(self._source.episode_lengths)
        episode = int(np.searchsorted(ends, row, side="right"))
        return episode, row - int(ends[episode] - self._source.episode_lengths[episode])

    def require_finite(self) -> None:
        """Raise a `DatasetError` at the first NaN or infinity in action or state."""
        for table in (self.action, self.state):
            for key, column in zip(table.keys, table.columns, strict=True) if table else ():
                row = self._first_nonfinite_row(column)
                if row is not None:
                    episode, frame = self.place(row)
                    raise DatasetError(
                        f"{self._source.file_of(episode)}: {key!r} is not finite at episode "
                        f"{self._source.episode_numbers[episode]} frame {frame}; `oatkit data "
                        "check` lists every such place"
                    )

    def _first_nonfinite_row(self, column: Column) -> int | None:
        """The first row with a NaN or infinity in these episodes; others may have some."""
        if column.first_nonfinite_row is None:
            return None
        values = column.open()
        for start, length in zip(self.episode_starts, self.episode_lengths, strict=True):
            is_finite_T = np.isfinite(values[start : start + length]).all(axis=1)
            if not is_finite_T.all():
                return int(start + is_finite_T.argmin())
        return None


def require_opened(dataset: object) -> None:
    """Refuse a path in the place of the dataset that lies there."""
    if isinstance(dataset, str | os.PathLike):
        path = os.fspath(dataset)
        raise ValueError(f"{path!r} is a path: open it first, oatkit.open_dataset({path!r})")


class Episode:
    """One demonstration of a dataset."""

    def __init__(self, dataset: Dataset, index: int) -> None:
        self._dataset = dataset
        self.index = index
        self._start = int(dataset.episode_starts[index])
        self._length = int(dataset.episode_lengths[index])

    def __len__(self) -> int:
        """The number of frames."""
        return self._length

    def __repr__(self) -> str:
        return f"Episode({self.index}, {len(self)} frames, {self.task!r})"

    @property
    def fps(self) -> float | None:
        return self._dataset.fps

    @property
    def actions(self) -> NDArray[np.float32]:
        """(frames, action_dim) in raw units."""
        return self._dataset.action.rows(self._start, self._start + len(self))

    @property
    def state(self) -> NDArray[np.float32] | None:
        """(frames, state_dim) in raw units, or None."""
        state = self._dataset.state
        return None if state is None else state.rows(self._start, self._start + len(self))

    @property
    def task(self) -> str:
        """The instruction at the first frame."""
        return self._dataset.tasks[self._dataset.task_index[self._start]]

    def column(self, *keys: str) -> NDArray[np.float32]:
        """Any number columns of the files, (frames, size)."""
        return self._dataset.table(*keys).rows(self._start, self._start + len(self))

    def images(self, camera: str, frames: Sequence[int] | None = None) -> NDArray[np.uint8]:
        """Images of one camera, (frames, height, width, 3); only the asked frames are decoded."""
        wanted = np.arange(len(self)) if frames is None else np.asarray(frames, np.int64)
        outside = wanted[(wanted < 0) | (wanted >= len(self))]
        if len(outside):
            raise IndexError(f"frame {outside[0]} does not exist: there are {len(self)}")
        episodes = np.full(len(wanted), self.index)
        return self._dataset.images(camera, self._start + wanted, episodes)
