"""Batches of observations as tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from oatkit.policies.observation.observations import Observations


def made(num_rows: int, *, num_frames: int = 2, text: int | None = None) -> Observations:
    shape = (num_rows,) if text is None else (num_rows, text)
    return Observations(
        task=torch.randint(9, shape),
        state=torch.randn(num_rows, num_frames, 3),
        images=(torch.randint(256, (num_rows, num_frames, 3, 4, 4), dtype=torch.uint8),),
        is_seen=torch.rand(num_rows, num_frames, 1) > 0.5,
    )


def same(one: Observations, other: Observations) -> bool:
    pairs = zip(one.tensors(), other.tensors(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_tensors_and_back() -> None:
    observations = made(5)
    assert same(Observations.from_tensors(observations.tensors()), observations)


def test_cat_is_the_inverse_of_split() -> None:
    observations = made(5)
    parts = observations.split(2)
    assert [len(part) for part in parts] == [2, 2, 1]
    assert same(Observations.cat(parts), observations)


def test_cat_pads_texts_to_the_longest() -> None:
    short, long = made(1, text=2), made(2, text=4)
    assert short.signature == long.signature
    task = Observations.cat([short, long]).task
    assert task.shape == (3, 4)
    assert task[0].tolist() == [*short.task[0].tolist(), -1, -1]
    assert torch.equal(task[1:], long.task)


def test_frames_become_a_history_and_the_last_task_counts() -> None:
    frames = [made(1, num_frames=1) for _ in range(3)]
    joined = Observations.from_frames([replace(f, is_single_frame=True) for f in frames])
    assert joined.state.shape == (1, 3, 3)
    assert joined.images[0].shape == (1, 3, 3, 4, 4)
    assert torch.equal(joined.state[0], torch.cat([frame.state[0] for frame in frames]))
    assert torch.equal(joined.task, frames[-1].task)
    assert not joined.is_single_frame


def test_images_of_two_types_are_not_mixed() -> None:
    dark = made(1)
    light = replace(dark, images=(dark.images[0].float() / 255,))
    assert dark.signature != light.signature
    for join in (Observations.cat, Observations.from_frames):
        with pytest.raises(ValueError, match=r"torch.float32 and torch.uint8 cannot be joined"):
            join([dark, light])
