"""Checks an observation against what a policy observes, and makes it tensors.

    one frame, the policy keeps the history      a batch with its history
    observation.state            (state_dim,)    (B, history, state_dim)
    observation.images.<camera>  (H, W, 3)       (B, history, H, W, 3)
    task                         text            B texts

Images are uint8, or floats from 0 to 1; channels may also come first, as in LeRobot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.errors import unknown_name
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.types.observation_keys import IMAGES, STATE, TASK


def read_observation(
    spec: ObservationSpec, observation: Mapping[str, Any], *, allow_more: bool = False
) -> Observations:
    """The tensors of an observation; a ValueError names what is wrong with it.

    Args:
        spec: What the policy observes.
        observation: One frame, or a batch with its history.
        allow_more: Whether the observation may hold more than the policy reads, as those of
            simulators do. Otherwise another camera is an error, because its name may be misspelled.
    """
    known = spec.select(observation)
    if allow_more:
        observation = known
    for key in observation:
        if key.startswith(IMAGES) and key.removeprefix(IMAGES) not in spec.cameras:
            raise ValueError(unknown_name("camera", key.removeprefix(IMAGES), spec.cameras))
    parts: dict[str, Tensor] = {}
    if spec.state is not None:
        parts[STATE] = _read_state(spec, _as_tensor(STATE, observation[STATE]))
    for camera, size in spec.cameras.items():
        key = f"{IMAGES}{camera}"
        parts[key] = _read_image(spec, key, _as_tensor(key, observation[key]), size)
    shapes = {key: part.shape[:2] for key, part in parts.items()}
    if len(set(shapes.values())) > 1:
        sizes = ", ".join(f"{key} {tuple(shape)}" for key, shape in shapes.items())
        raise ValueError(f"batch and history differ between parts of the observation: {sizes}")
    first, (batch_size, num_frames) = next(iter(shapes.items()))
    if not batch_size:
        raise ValueError("the batch of observations is empty")
    read = Observations(
        task=_read_task(spec, observation.get(TASK), batch_size),
        state=parts.pop(STATE, torch.zeros(batch_size, num_frames, 0)),
        images=tuple(parts.values()),
        is_seen=torch.ones(batch_size, num_frames, len(spec.cameras), dtype=torch.bool),
        is_single_frame=np.ndim(observation[first]) == (1 if first == STATE else 3),
    )
    return read if spec.embodiment is None else spec.embodiment.place(read)


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


def _read_state(spec: ObservationSpec, state: Tensor) -> Tensor:
    """(B, history, state_dim) normalized, with one of each for one frame."""
    assert spec.state is not None
    batch = state[None, None] if state.ndim == 1 else state
    has_history = state.ndim == 1 or batch.shape[1:2] == (spec.history,)
    state_dim = len(spec.state.offset)
    if batch.ndim != 3 or batch.shape[-1] != state_dim or not has_history:
        raise ValueError(
            f"{STATE} is {tuple(state.shape)}, expected ({state_dim},) for one frame or "
            f"(batch, {spec.history}, {state_dim}) with its history"
        )
    if not torch.isfinite(batch).all():
        raise ValueError(f"{STATE} is not finite")
    return spec.state.normalize(batch.float())


def _read_image(spec: ObservationSpec, key: str, image: Tensor, size: tuple[int, int]) -> Tensor:
    """(B, history, 3, H, W), with one of each for one frame."""
    batch = image[None, None] if image.ndim == 3 else image
    if batch.ndim == 5 and batch.shape[-1] == 3:
        batch = batch.movedim(-1, -3)
    has_history = image.ndim == 3 or batch.shape[1:2] == (spec.history,)
    if batch.ndim != 5 or batch.shape[2:] != (3, *size) or not has_history:
        shape = f"{size[0]}, {size[1]}, 3"
        raise ValueError(
            f"{key} is {tuple(image.shape)}, expected ({shape}) for one frame or (batch, "
            f"{spec.history}, {shape}) with its history"
        )
    if batch.dtype == torch.uint8:
        return batch
    if not batch.is_floating_point():
        raise ValueError(f"{key} is {image.dtype}, expected uint8 or floats from 0 to 1")
    low, high = (float(value) for value in batch.aminmax())
    if not np.isfinite([low, high]).all():
        raise ValueError(f"{key} is not finite")
    if low < 0 or high > 1:
        raise ValueError(
            f"{key} has values from {low:g} to {high:g}, expected floats from 0 to 1, or uint8"
        )
    return batch.float()


def _read_task(spec: ObservationSpec, task: Any, batch_size: int) -> Tensor:
    """(B,) index of each instruction among those that the network knows."""
    place = spec.embodiment
    if task is None or not spec.tasks:
        first = spec.tasks[0] if spec.tasks else ""
        number = 0 if place is None else place.tasks.index(place.instruction(first))
        return torch.full((batch_size,), number)
    texts = instructions(task, batch_size)
    for text in texts:
        if text not in spec.tasks:
            raise ValueError(unknown_name("task", str(text), spec.tasks))
    if place is not None:
        return torch.tensor([place.tasks.index(place.instruction(text)) for text in texts])
    return torch.tensor([spec.tasks.index(text) for text in texts])


def instructions(task: Any, batch_size: int) -> list[Any]:
    """One instruction for each observation; a single one is for all of them."""
    texts = [task] * batch_size if np.ndim(task) == 0 else list(task)
    if len(texts) != batch_size:
        raise ValueError(f"there are {len(texts)} tasks for {batch_size} observations")
    return texts
