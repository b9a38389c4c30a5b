"""What a policy observes: state, cameras, instructions, and how many frames of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from oatkit.data import Dataset, Normalizer
from oatkit.errors import unknown_name
from oatkit.policies.observation.embodiment import Embodiment
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types.observation_keys import IMAGES, STATE, TASK


@dataclass(frozen=True)
class ObservationSpec:
    """What a policy was trained to observe.

    Attributes:
        history: Number of frames, the current one included.
        state: Raw to normalized state; None where the policy does not read it.
        cameras: Height and width of each camera, by its name.
        tasks: The known instructions.
        embodiment: Where that lies in what a network for several robots reads; None where the
            network is for this robot alone.
    """

    history: int
    state: Normalizer | None
    cameras: dict[str, tuple[int, int]]
    tasks: tuple[str, ...]
    embodiment: Embodiment | None = None

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
        embodiment: Embodiment | None = None,
    ) -> ObservationSpec:
        """The state of a dataset and some of its cameras."""
        sizes = {}
        for name in cameras:
            if name not in dataset.cameras:
                raise ValueError(unknown_name("camera", name, dataset.cameras))
            sizes[name] = (dataset.cameras[name].height, dataset.cameras[name].width)
        state = Normalizer.fit(dataset.state_statistics()) if reads_state else None
        return cls(history, state, sizes, dataset.tasks, embodiment)

    @property
    def state_dim(self) -> int:
        return 0 if self.state is None else self.state.dim

    @property
    def network(self) -> ObservationSpec:
        """What the network reads: the same, or what all of its robots need together."""
        place = self.embodiment
        if place is None:
            return self
        zeros = np.zeros(place.state_dim)
        state = Normalizer("identity", zeros, zeros + 1) if place.state_dim else None
        cameras = {f"camera {i}": size for i, size in enumerate(place.camera_sizes)}
        return ObservationSpec(self.history, state, cameras, place.tasks)

    def chunk_shape(self, tokenizer: ActionTokenizer) -> tuple[int, int]:
        """Number of steps and of normalized dimensions of the network's chunks."""
        if self.embodiment is not None:
            return self.embodiment.chunk_shape
        return tokenizer.horizon, tokenizer.normalizer.dim

    def select(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """Only what the policy reads of an observation; what is missing is an error."""
        wanted = [*([STATE] if self.state else []), *(f"{IMAGES}{name}" for name in self.cameras)]
        wanted += [TASK] if len(self.tasks) > 1 else []
        given = sorted(key for key, value in observation.items() if value is not None)
        missing = [key for key in wanted if key not in given]
        if missing:
            raise ValueError(
                f"the observation has no {missing[0]!r}; it has {given}, and the policy reads "
                f"{wanted}{_state_hint(missing, given)}"
            )
        return {key: observation[key] for key in wanted}

    def start_state(self, observations: Observations) -> Tensor | None:
        """The raw state at which chunks start, (B, state_dim); None where it is not read."""
        if self.state is None:
            return None
        return self.state.unnormalize(observations.state[:, -1, : self.state_dim])

    def with_more_tasks(self, tasks: Sequence[str]) -> ObservationSpec:
        """The same with further tasks behind the known ones."""
        new = tuple(task for task in tasks if task not in self.tasks)
        place = self.embodiment and self.embodiment.with_more_tasks(new)
        return replace(self, tasks=(*self.tasks, *new), embodiment=place)

    def describe(self) -> str:
        """State and cameras in words."""
        parts = [f"state of {self.state_dim}"] if self.state_dim else []
        parts += [f"camera `{name}`, {h} x {w}" for name, (h, w) in self.cameras.items()]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "history": self.history,
            "state": None if self.state is None else self.state.to_json(),
            "cameras": {name: list(size) for name, size in self.cameras.items()},
            "tasks": list(self.tasks),
            **({} if self.embodiment is None else {"embodiment": self.embodiment.to_json()}),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ObservationSpec:
        state, place = values["state"], values.get("embodiment")
        return cls(
            history=values["history"],
            state=None if state is None else Normalizer.from_json(state),
            cameras={name: (size[0], size[1]) for name, size in values["cameras"].items()},
            tasks=tuple(values["tasks"]),
            embodiment=None if place is None else Embodiment.from_json(place),
        )


def blank_observation(spec: ObservationSpec, batch_size: int) -> dict[str, Any]:
    """A batch of black images and of the state amid the training data, to measure time with."""
    shape = (batch_size, spec.history)
    blank: dict[str, Any] = {TASK: [spec.tasks[0] if spec.tasks else "act"] * batch_size}
    if spec.state is not None:  # not 0, which is no rotation where a state has a quaternion
        blank[STATE] = np.tile(spec.state.offset.astype(np.float32), (*shape, 1))
    for camera, size in spec.cameras.items():
        blank[f"{IMAGES}{camera}"] = np.zeros((*shape, *size, 3), np.uint8)
    return blank


def _state_hint(missing: Sequence[str], given: Sequence[str]) -> str:
    """What the state is, for who gives a column of the dataset by the name that it has there."""
    columns = [key for key in given if key.startswith("observation.") and IMAGES not in key]
    if STATE not in missing or not columns:
        return ""
    return f": {STATE} is all that training read as the state, such as {columns[0]!r}, joined"
