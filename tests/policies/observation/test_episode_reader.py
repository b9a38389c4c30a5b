"""One frame is read with the frames before it, a batch as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from oatkit.policies.observation.episode_reader import EpisodeReader, ResizedReading
from oatkit.policies.observation.observations import Observations


def read(observation: Mapping[str, Any], *, allow_more: bool = False) -> Observations:
    """One number is one frame; a list of lists is a batch with its history."""
    value = observation["x"]
    state = torch.tensor(value, dtype=torch.float32)
    is_single = state.ndim == 0
    state = state.view(1, 1, 1) if is_single else state[..., None]
    batch_size, num_frames = state.shape[:2]
    return Observations(
        task=torch.zeros(batch_size, dtype=torch.int64),
        state=state,
        images=(),
        is_seen=torch.ones(batch_size, num_frames, 0, dtype=torch.bool),
        is_single_frame=is_single,
    )


def states(reader: EpisodeReader, value: Any) -> tuple[list[Any], bool]:
    batch, is_single = reader.batch({"x": value})
    return batch.state[..., 0].tolist(), is_single


def test_the_first_frame_is_repeated_and_reset_forgets() -> None:
    reader = EpisodeReader(read, 3)
    assert states(reader, 1.0) == ([[1, 1, 1]], True)
    reader.observe({"x": 2.0})
    assert states(reader, 3.0) == ([[1, 2, 3]], True)
    assert states(reader, 4.0) == ([[2, 3, 4]], True)
    reader.reset()
    assert states(reader, 9.0) == ([[9, 9, 9]], True)


def test_a_batch_brings_its_history_and_nothing_is_kept() -> None:
    reader = EpisodeReader(read, 2)
    assert states(reader, 1.0) == ([[1, 1]], True)
    assert states(reader, [[5.0, 6.0], [7.0, 8.0]]) == ([[5, 6], [7, 8]], False)
    assert states(reader, 2.0) == ([[1, 2]], True)
    with pytest.raises(ValueError, match=r"observe\(\) takes one frame"):
        reader.observe({"x": [[1.0, 2.0]]})


def test_what_was_read_before_is_not_read_again() -> None:
    reader = EpisodeReader(read, 2)
    frame = read({"x": 4.0})
    reader.read = None  # type: ignore[assignment]
    batch, is_single = reader.batch(frame)
    assert (batch.state[..., 0].tolist(), is_single) == ([[4, 4]], True)


def test_a_dataset_is_read_as_a_robot_unless_its_images_can_be_resized_first() -> None:
    assert EpisodeReader(read, 1).resized() == ResizedReading(read)
    assert EpisodeReader(read, 1, lambda: None).resized() == ResizedReading(read)
    other = ResizedReading(read, resize=lambda images: images[:, ::2])
    assert EpisodeReader(read, 1, lambda: other).resized() is other
