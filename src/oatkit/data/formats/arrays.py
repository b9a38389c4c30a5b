"""Episodes that are arrays in memory, as a notebook has them.

    open_dataset(actions)                                       (T, A) one episode, (E, T, A) more
    open_dataset([first, second])                               one array (T, A) for each episode
    open_dataset({"action": [...], "observation.state": [...]}) further columns, alike
    open_dataset({"action": [...], "task": ["open", "close"]})  a text for all, or one for each

Their numbers are written to the cache like those of files, under a name made of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.source import Camera, Feature
from oatkit.data.well_known import find_action
from oatkit.errors import DatasetError
from oatkit.storage.digest import digest
from oatkit.types.observation_keys import STATE, TASK

ACTION = "action"
NUM_DIGITS = 12

Given = NDArray[Any] | Sequence[Any] | Mapping[str, Any]
"""One array, one for each episode, or such by the name of the column."""


class Arrays:
    """Arrays in memory; see `oatkit.data.source.Source`.

    Args:
        given: One array, one for each episode, or such by the name of the column.
    """

    format = "arrays"
    fps: float | None = None

    def __init__(self, given: Given) -> None:
        columns = dict(given) if isinstance(given, Mapping) else {ACTION: given}
        task = columns.pop(TASK, "act")
        action = find_action(columns, "the arrays")
        self._episodes = {key: _episodes(key, value) for key, value in columns.items()}
        lengths = [len(rows) for rows in self._episodes[action]]
        for key, episodes in self._episodes.items():
            if [len(rows) for rows in episodes] != lengths:
                raise DatasetError(f"{key!r} has other lengths than {action!r}, expected {lengths}")
        self.episode_lengths = np.array(lengths, np.int64)
        self.episode_numbers = np.arange(len(lengths))
        texts = [task] * len(lengths) if isinstance(task, str) else [str(text) for text in task]
        if len(texts) != len(lengths):
            raise DatasetError(f"there are {len(texts)} tasks for {len(lengths)} episodes")
        self.tasks = list(dict.fromkeys(texts))
        self._task_of = [self.tasks.index(text) for text in texts]
        self.features = {key: Feature((rows[0].shape[1],)) for key, rows in self._episodes.items()}
        self.cameras: dict[str, Camera] = {}
        self.action_keys: tuple[str, ...] = (action,)
        self.state_keys: tuple[str, ...] = (STATE,) if STATE in self.features else ()
        content = [rows.tobytes() for episodes in self._episodes.values() for rows in episodes]
        name = digest(repr((texts, list(columns), lengths)).encode(), *content)[:NUM_DIGITS]
        self.root = Path(f"arrays-{name}")

    def files(self) -> Sequence[Path]:
        return ()

    def file_of(self, episode: int) -> Path:
        return self.root

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        yield from self._episodes[key]

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        yield np.repeat(np.asarray(self._task_of, np.int32), self.episode_lengths)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        raise DatasetError(f"arrays in memory have no camera {camera!r}")


def _episodes(key: str, given: Any) -> list[NDArray[np.float32]]:
    """The rows of each episode, (T, size)."""
    is_list = isinstance(given, list | tuple) and len(given) and np.ndim(given[0]) == 2
    try:
        arrays = [np.asarray(one, np.float32) for one in (given if is_list else [given])]
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{key!r} is no array of numbers: {error}") from error
    if not is_list and arrays[0].ndim == 3:
        arrays = list(arrays[0])
    for number, rows in enumerate(arrays):
        if rows.ndim != 2 or 0 in rows.shape or rows.shape[1] != arrays[0].shape[1]:
            raise DatasetError(
                f"{key!r} of episode {number} is {rows.shape}, expected (frames, dimensions), the "
                "dimensions of all episodes alike"
            )
    return arrays
