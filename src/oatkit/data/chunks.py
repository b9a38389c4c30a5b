"""Windows over episodes: chunks of actions and the observations that lead to them.

With horizon 4 and history 2, the chunk that starts at frame t of an episode of 6 frames:

    t                 0          1                  4                   5
    observations     0 0        0 1                3 4                 4 5
    actions        0 1 2 3    1 2 3 4            4 5 5 5             5 5 5 5
    action_is_pad  . . . .    . . . .            . . x x             . x x x

Shape letters: B chunk, T step in the chunk, A action dimension, S observed frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import unknown_name
from oatkit.types.observation_keys import IMAGES, STATE, TASK

if TYPE_CHECKING:
    from oatkit.data.dataset import Dataset
    from oatkit.data.source import Resize


class Chunks:
    """Random access to the chunks of a dataset; also a map-style dataset for torch loaders.

    A batch is a dict with LeRobot's keys:

        action                       (B, horizon, action_dim)  float32, raw units
        action_is_pad                (B, horizon)              bool, True past the episode's end
        observation.state            (B, history, state_dim)   float32, where there is a state
        observation.images.<camera>  (B, history, H, W, 3)     uint8, for the asked cameras
        task                         list of B texts
        task_index, episode_index, frame_index  (B,)           int64

    Args:
        dataset: Episodes that the chunks are taken from.
        horizon: Number of actions in a chunk.
        stride: Frames between the starts of two chunks.
        history: Number of frames that are observed, the current one included.
        cameras: Cameras whose images are read; none by default.
        resize: Function that gives images (N, H, W, 3) another size; as they are by default.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        horizon: int,
        stride: int = 1,
        history: int = 1,
        cameras: str | Sequence[str] = (),
        resize: Resize | None = None,
    ) -> None:
        for name, value in (("horizon", horizon), ("stride", stride), ("history", history)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")
        if horizon > dataset.longest_in_files:
            raise ValueError(
                f"horizon {horizon} is longer than every episode of {dataset.path}; the longest "
                f"has {dataset.longest_in_files} frames"
            )
        cameras = (cameras,) if isinstance(cameras, str) else tuple(cameras)
        for camera in cameras:
            if camera not in dataset.cameras:
                raise ValueError(unknown_name("camera", camera, dataset.cameras))
        self.dataset = dataset
        self.horizon = horizon
        self.stride = stride
        self.history = history
        self.cameras = cameras
        self.resize = resize
        self._ends = np.cumsum(-(-dataset.episode_lengths // stride))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One chunk: a batch without its leading axis."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"chunk {index} does not exist: there are {len(self)}")
        return {key: values[0] for key, values in self.batch([index % len(self)]).items()}

    def sample(self, batch_size: int, rng: np.random.Generator) -> dict[str, Any]:
        """A batch of chunks sampled uniformly, with replacement."""
        return self.batch(rng.integers(len(self), size=batch_size))

    def spread(self, max_chunks: int) -> NDArray[np.int64]:
        """Indices of at most so many chunks, spread evenly over the dataset."""
        return np.linspace(0, len(self) - 1, min(len(self), max_chunks)).astype(np.int64)

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> dict[str, Any]:
        """The chunks at `indices`, each in 0 .. len - 1."""
        data = self.dataset
        episode_B, frame_B = self._locate(np.asarray(indices, np.int64))
        start_B = data.episode_starts[episode_B]
        actions_BTA, is_pad_BT = self._actions(start_B, frame_B, data.episode_lengths[episode_B])
        batch: dict[str, Any] = {"action": actions_BTA, "action_is_pad": is_pad_BT}
        rows_BS = start_B[:, None] + self._history(frame_B)
        if data.state is not None:
            batch[STATE] = data.state.take(rows_BS)
        for camera in self.cameras:
            episode_N = np.repeat(episode_B, self.history)
            images = data.images(camera, rows_BS.ravel(), episode_N, self.resize)
            batch[f"{IMAGES}{camera}"] = images.reshape(*rows_BS.shape, *images.shape[1:])
        task_B = data.task_index[start_B + frame_B].astype(np.int64)
        return batch | {
            TASK: [data.tasks[task] for task in task_B],
            "task_index": task_B,
            "episode_index": data.episode_numbers[episode_B],
            "frame_index": frame_B,
        }

    def actions(
        self, indices: Sequence[int] | NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Only the actions, (B, T, A), and which of them are padding, (B, T)."""
        data = self.dataset
        episode_B, frame_B = self._locate(np.asarray(indices, np.int64))
        lengths_B = data.episode_lengths[episode_B]
        return self._actions(data.episode_starts[episode_B], frame_B, lengths_B)

    def start_states(
        self, indices: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """The raw state at the start of each chunk, (B, S); None where there is no state."""
        if self.dataset.state is None:
            return None
        episode_B, frame_B = self._locate(np.asarray(indices, np.int64))
        return self.dataset.state.take(self.dataset.episode_starts[episode_B] + frame_B)

    def _locate(self, index_B: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Episode and frame where each chunk starts."""
        if len(index_B) and not 0 <= index_B.min() <= index_B.max() < len(self):
            raise IndexError(f"chunk indices go from 0 to {len(self) - 1}")
        episode_B = np.searchsorted(self._ends, index_B, side="right")
        first_B = np.where(episode_B > 0, self._ends[episode_B - 1], 0)
        return episode_B, (index_B - first_B) * self.stride

    def _actions(
        self, start_B: NDArray[np.int64], frame_B: NDArray[np.int64], length_B: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        frame_BT = frame_B[:, None] + np.arange(self.horizon)
        last_B1 = length_B[:, None] - 1
        rows_BT = start_B[:, None] + np.minimum(frame_BT, last_B1)
        return self.dataset.action.take(rows_BT), frame_BT > last_B1

    def _history(self, frame_B: NDArray[np.int64]) -> NDArray[np.int64]:
        """The frames seen at each start, oldest first; frames before the start of the episode are
        replaced by its first."""
        return np.maximum(frame_B[:, None] + np.arange(1 - self.history, 1), 0)
