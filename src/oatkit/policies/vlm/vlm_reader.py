"""Observations as a vision-language policy reads them: text as ids, images as pixels.

Any instruction that is not empty is read; it may be left out if training had only one. A camera may
be missing: its key is left out or None, or in a batch some of its rows are None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.nn.frame_resizing import resize_frames
from oatkit.policies.observation.episode_reader import ResizedReading
from oatkit.policies.observation.observation_reading import (
    as_array,
    instructions,
    read_observation,
)
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.processor import Processor
from oatkit.types.observation_keys import IMAGES, STATE, TASK


class VlmReader:
    """Reads observations for a backbone.

    Args:
        spec: What the policy observes.
        processor: Tokenizer and image processor of the backbone.
        is_resized: Whether images have the size that the processor would give them.
    """

    def __init__(
        self, spec: ObservationSpec, processor: Processor, *, is_resized: bool = False
    ) -> None:
        self._is_resized = is_resized
        self._place = spec.embodiment
        # a task is text here, not an index
        self._spec = replace(spec, tasks=(), embodiment=None)
        self._has_images = bool(spec.network.cameras)
        self._processor = processor
        # an instruction may be left out if training had only one
        self._default_task = spec.tasks[0] if len(spec.tasks) == 1 else None

    def read(self, observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
        """Tensors of an observation; see `read_observation`."""
        batch_size = self._batch_size(observation)
        complete, seen = dict(observation), []
        for camera, size in self._spec.cameras.items():
            key = f"{IMAGES}{camera}"
            complete[key], is_seen = self._fill_missing(key, complete.get(key), size, batch_size)
            seen.append(is_seen)
        found = read_observation(self._spec, complete, allow_more=allow_more)
        is_seen_BC = torch.tensor(seen, dtype=torch.bool).reshape(len(seen), len(found)).t()
        found = replace(found, is_seen=is_seen_BC[:, None].expand(-1, found.state.shape[1], -1))
        texts = _texts(observation.get(TASK, self._default_task), len(found))
        if self._place is not None:
            found = self._place.place(found)
            texts = [self._place.instruction(text) for text in texts]
        return replace(
            found,
            task=self._processor.task_ids(texts, has_images=self._has_images),
            images=tuple(self._pixels(image) for image in found.images),
        )

    def _batch_size(self, observation: Mapping[str, Any]) -> int | None:
        """Number of rows of a batch, or None for a single frame, as state or images show."""
        if self._spec.state is not None and STATE in observation:
            state = observation[STATE]
            return len(state) if np.ndim(state) == 3 else None
        for camera in self._spec.cameras:
            images = observation.get(f"{IMAGES}{camera}")
            if images is not None:
                return None if _is_array(images) and images.ndim == 3 else len(images)
        raise ValueError(
            f"the observation has neither {STATE!r} nor an image; it has {sorted(observation)}, "
            f"and the policy reads cameras {list(self._spec.cameras)}"
        )

    def _fill_missing(
        self, key: str, images: Any, size: tuple[int, int], batch_size: int | None
    ) -> tuple[Any, list[bool]]:
        """Images, black where they are missing, and whether each row was there."""
        count = 1 if batch_size is None else batch_size
        blank: NDArray[np.uint8] = np.zeros((self._spec.history, *size, 3), np.uint8)
        if images is None:
            missing = blank[0] if batch_size is None else np.stack([blank] * count)
            return missing, [False] * count
        if isinstance(images, Sequence) and any(row is None for row in images):
            rows = [None if row is None else as_array(key, row) for row in images]
            given = [row for row in rows if row is not None]
            found = sorted({f"{row.shape} {row.dtype}" for row in given})
            if len(found) > 1:
                raise ValueError(f"{key} holds images of several shapes or types: {found}")
            black = np.zeros_like(given[0]) if given else blank
            filled = [black if row is None else row for row in rows]
            return np.stack(filled), [row is not None for row in rows]
        return images, [True] * count

    def _pixels(self, images_BSCHW: Tensor) -> Tensor:
        """Pixels (B, history, ...) as the processor gives them, uint8."""
        images = images_BSCHW.cpu()
        if images.is_floating_point():
            images = (255 * images).round().to(torch.uint8)
        if self._is_resized:
            return images.contiguous()
        found = self._processor.pixels(images.flatten(0, 1))
        return found.view(*images.shape[:2], *found.shape[1:])


def resized_reading(spec: ObservationSpec, processor: Processor) -> ResizedReading | None:
    """How a dataset is read with images that are resized when they are decoded; None where the
    image processor does more than that."""
    sizes = {size: processor.resized(size) for size in set(spec.cameras.values())}
    found = {size: made for size, made in sizes.items() if made is not None}
    if not sizes or len(found) < len(sizes):
        return None
    cameras = {name: found[size] for name, size in spec.cameras.items()}
    reader = VlmReader(replace(spec, cameras=cameras), processor, is_resized=True)
    return ResizedReading(
        reader.read, partial(resize_frames, sizes=found, mode=processor.resizing_mode)
    )


def _texts(task: Any, batch_size: int) -> list[str]:
    texts = instructions(task, batch_size)
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"the instruction is {text!r}, expected text under the key {TASK!r}: the policy "
                "reads language"
            )
    return texts


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | Tensor)
