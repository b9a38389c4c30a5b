"""What a policy observes: LeRobot's keys checked and made into tensors.

    one frame, the policy keeps the history      a batch with its history
    observation.state            (state_dim,)    (B, history, state_dim)
    observation.images.<camera>  (H, W, 3)       (B, history, H, W, 3)
    task                         text            B texts

Images are uint8, or floats from 0 to 1; channels may also come first, as in LeRobot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.data import Dataset, Normalizer
from oatkit.errors import unknown_name

STATE = "observation.state"
IMAGES = "observation.images."
TASK = "task"


@dataclass(frozen=True, eq=False)
class Observations:
    """A batch of observations as tensors.

    Attributes:
        task: (B,) int64, place among the known tasks; (B, L) ids of its text, -1 after their end,
            where a policy reads text.
        state: (B, history, state_dim) float32, normalized; state_dim is 0 without a state.
        images: For each camera (B, history, 3, H, W), uint8 or float from 0 to 1; (B, history, ...)
            uint8 where a policy has its own image processor.
        is_seen: (B, history, cameras) bool, False where an image is missing.
    """

    task: Tensor
    state: Tensor
    images: tuple[Tensor, ...]
    is_seen: Tensor

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> Observations:
        """The inverse of `tensors`."""
        task, state, is_seen, *images = tensors
        return cls(task, state, tuple(images), is_seen)

    def __len__(self) -> int:
        return len(self.task)

    def to(self, device: torch.device) -> Observations:
        return self.of([tensor.to(device) for tensor in self.tensors()])

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.task, self.state, self.is_seen, *self.images)

    def split(self, num_rows: int) -> list[Observations]:
        """Successive parts of at most so many rows."""
        parts = zip(*(torch.split(tensor, num_rows) for tensor in self.tensors()), strict=True)
        return [self.of(part) for part in parts]

    @classmethod
    def cat(cls, parts: Sequence[Observations]) -> Observations:
        """The rows of several one after the other; texts become as long as the longest."""
        tasks = [part.task for part in parts]
        if tasks[0].ndim > 1:
            longest = max(task.shape[1] for task in tasks)
            tasks = [F.pad(task, (0, longest - task.shape[1]), value=-1) for task in tasks]
        others = zip(*(part.tensors()[1:] for part in parts), strict=True)
        return cls.of([torch.cat(tasks), *(torch.cat(tensors) for tensors in others)])


@dataclass(frozen=True)
class ObservationSpec:
    """What a policy was trained to observe.

    Attributes:
        history: Frames, the current one included.
        state: Raw to normalized state; None where the policy does not read it.
        cameras: Name to height and width.
        tasks: The known instructions.
    """

    history: int
    state: Normalizer | None
    cameras: dict[str, tuple[int, int]]
    tasks: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.history < 1:
            raise ValueError(f"history is {self.history}, expected at least 1")
        if self.state is None and not self.cameras:
            raise ValueError("a policy that reads neither state nor cameras observes nothing")

    @classmethod
    def for_dataset(
        cls,
        dataset: Dataset,
        *,
        history: int,
        cameras: Sequence[str] = (),
        reads_state: bool = True,
    ) -> ObservationSpec:
        """Of a dataset's state and some of its cameras."""
        sizes = {}
        for name in cameras:
            if name not in dataset.cameras:
                raise ValueError(unknown_name("camera", name, dataset.cameras))
            sizes[name] = (dataset.cameras[name].height, dataset.cameras[name].width)
        state = Normalizer.fit(dataset.state_statistics()) if reads_state else None
        return cls(history, state, sizes, dataset.tasks)

    @property
    def state_dim(self) -> int:
        return 0 if self.state is None else self.state.dim

    def read(self, observation: Mapping[str, Any]) -> tuple[Observations, bool]:
        """The tensors of an observation, and whether it was one frame (history and batch are 1)."""
        self._check_keys(observation)
        parts: dict[str, Tensor] = {}
        if self.state is not None:
            parts[STATE] = self._state(_as_tensor(STATE, observation[STATE]))
        for camera, size in self.cameras.items():
            key = f"{IMAGES}{camera}"
            parts[key] = self._image(key, _as_tensor(key, observation[key]), size)
        leading = {key: part.shape[:2] for key, part in parts.items()}
        if len(set(leading.values())) > 1:
            sizes = ", ".join(f"{key} {tuple(shape)}" for key, shape in leading.items())
            raise ValueError(f"batch and history differ between parts of the observation: {sizes}")
        first = next(iter(parts))
        is_single = np.ndim(observation[first]) == (1 if first == STATE else 3)
        batch_size, num_frames = next(iter(leading.values()))
        if not batch_size:
            raise ValueError("the batch of observations is empty")
        state = parts.pop(STATE, torch.zeros(batch_size, num_frames, 0))
        task = self._task(observation.get(TASK), batch_size)
        is_seen = torch.ones(batch_size, num_frames, len(self.cameras), dtype=torch.bool)
        return Observations(task, state, tuple(parts.values()), is_seen), is_single

    def select(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """Only what the policy reads of an observation; what is missing is an error."""
        wanted = [*([STATE] if self.state else []), *(f"{IMAGES}{name}" for name in self.cameras)]
        wanted += [TASK] if len(self.tasks) > 1 else []
        given = sorted(key for key, value in observation.items() if value is not None)
        missing = [key for key in wanted if key not in given]
        if missing:
            raise ValueError(
                f"the observation has no {missing[0]!r}; it has {given}, and the policy reads "
                f"{wanted}"
            )
        return {key: observation[key] for key in wanted}

    def _check_keys(self, observation: Mapping[str, Any]) -> None:
        self.select(observation)
        for key in observation:
            if key.startswith(IMAGES) and key.removeprefix(IMAGES) not in self.cameras:
                raise ValueError(unknown_name("camera", key.removeprefix(IMAGES), self.cameras))

    def _state(self, state: Tensor) -> Tensor:
        assert self.state is not None
        framed = state[None, None] if state.ndim == 1 else state
        if framed.ndim != 3 or framed.shape[-1] != self.state_dim or not self._fits(state, framed):
            raise ValueError(
                f"{STATE} is {tuple(state.shape)}, expected ({self.state_dim},) for one frame or "
                f"(batch, {self.history}, {self.state_dim}) with its history"
            )
        if not torch.isfinite(framed).all():
            raise ValueError(f"{STATE} is not finite")
        return self.state.normalize(framed.float())

    def _image(self, key: str, image: Tensor, size: tuple[int, int]) -> Tensor:
        framed = image[None, None] if image.ndim == 3 else image
        if framed.ndim == 5 and framed.shape[-1] == 3:
            framed = framed.movedim(-1, -3)
        if framed.ndim != 5 or framed.shape[2:] != (3, *size) or not self._fits(image, framed):
            shape = f"{size[0]}, {size[1]}, 3"
            raise ValueError(
                f"{key} is {tuple(image.shape)}, expected ({shape}) for one frame or (batch, "
                f"{self.history}, {shape}) with its history"
            )
        if framed.dtype == torch.uint8:
            return framed
        if not framed.is_floating_point():
            raise ValueError(f"{key} is {image.dtype}, expected uint8 or floats from 0 to 1")
        low, high = (float(value) for value in framed.aminmax())
        if not np.isfinite([low, high]).all():
            raise ValueError(f"{key} is not finite")
        if low < 0 or high > 1:
            raise ValueError(
                f"{key} has values from {low:g} to {high:g}, expected floats from 0 to 1, or uint8"
            )
        return framed.float()

    def _fits(self, given: Tensor, framed: Tensor) -> bool:
        return given.ndim != framed.ndim or framed.shape[1] == self.history

    def _task(self, task: Any, batch_size: int) -> Tensor:
        if task is None or not self.tasks:
            return torch.zeros(batch_size, dtype=torch.int64)
        texts = [task] * batch_size if np.ndim(task) == 0 else list(task)
        if len(texts) != batch_size:
            raise ValueError(f"there are {len(texts)} tasks for {batch_size} observations")
        for text in texts:
            if text not in self.tasks:
                raise ValueError(unknown_name("task", str(text), self.tasks))
        return torch.tensor([self.tasks.index(text) for text in texts])

    def to_json(self) -> dict[str, Any]:
        return {
            "history": self.history,
            "state": None if self.state is None else self.state.to_json(),
            "cameras": {name: list(size) for name, size in self.cameras.items()},
            "tasks": list(self.tasks),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ObservationSpec:
        state = values["state"]
        return cls(
            history=values["history"],
            state=None if state is None else Normalizer.from_json(state),
            cameras={name: (size[0], size[1]) for name, size in values["cameras"].items()},
            tasks=tuple(values["tasks"]),
        )


def as_array(key: str, value: Any) -> NDArray[Any]:
    """A part of an observation as an array of numbers; anything else is an error."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{key} is no array: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{key} holds {array.dtype}, expected numbers")
    return array


def _as_tensor(key: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.from_numpy(np.ascontiguousarray(as_array(key, value)))
