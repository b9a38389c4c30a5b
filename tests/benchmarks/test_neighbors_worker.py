"""What LeRobot's policies are given: plain arrays in both directions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from benchmarks.neighbors_worker import (
    AVERAGE,
    ENVIRONMENT_STATE,
    STATE,
    Frames,
    _add_to_mean,
    observed,
    pack,
    unpack,
)

NUM_FRAMES = (5, 4)
"""Lengths of two episodes."""


def frames() -> Frames:
    total = sum(NUM_FRAMES)
    ends = np.cumsum(NUM_FRAMES)
    number = np.arange(total, dtype=np.float32)
    return Frames(
        {
            "state": np.repeat(number[:, None], 6, axis=1),
            "task": np.repeat([0, 1], NUM_FRAMES),
            "action": number[:, None],
            "first": np.repeat(ends - NUM_FRAMES, NUM_FRAMES),
            "last": np.repeat(ends - 1, NUM_FRAMES),
        },
        num_tasks=2,
    )


def test_arrays_survive_the_pipe() -> None:
    sent = {"state": np.random.default_rng(0).normal(size=(2, 3)), "task": np.arange(2)}
    received = unpack(pack(sent))
    assert list(received) == list(sent)
    for key, values in sent.items():
        np.testing.assert_array_equal(received[key], values)


def test_the_task_is_one_hot_and_the_arm_apart() -> None:
    found = observed(np.arange(12.0).reshape(2, 6), np.array([1, 0]), num_tasks=3)
    assert found[STATE].tolist() == [[0, 1, 2, 3], [6, 7, 8, 9]]
    assert found[ENVIRONMENT_STATE][0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 0]


def test_a_batch_stays_inside_its_episode() -> None:
    config = SimpleNamespace(observation_delta_indices=[-1, 0], action_delta_indices=[-1, 0, 1, 2])
    batch = frames().batch(torch.tensor([0, 3, 5, 8]), config)
    assert batch[STATE][..., 0].tolist() == [[0, 0], [2, 3], [5, 5], [7, 8]]
    assert batch["action"][..., 0].tolist() == [
        [0, 0, 1, 2],
        [2, 3, 4, 4],
        [5, 5, 6, 7],
        [7, 8, 8, 8],
    ]
    assert batch["action_is_pad"].tolist() == [
        [True, False, False, False],
        [False, False, False, True],
        [True, False, False, False],
        [False, False, True, True],
    ]


def test_one_frame_has_no_axis_of_frames() -> None:
    config = SimpleNamespace(observation_delta_indices=None, action_delta_indices=[0, 1])
    batch = frames().batch(torch.tensor([1, 4]), config)
    assert batch[STATE].shape == (2, 4)
    assert frames().left().tolist() == [4, 3, 2, 1, 0, 3, 2, 1, 0]


def test_the_mean_of_few_steps_is_not_that_of_the_beginning() -> None:
    mean = [torch.zeros(3)]
    for step in range(1, 100):
        _add_to_mean(mean, [torch.ones(3)], torch.tensor(step))
    assert (mean[0] > 0.99).all()  # with one decay for all steps it would be 0.39
    before = mean[0].clone()
    _add_to_mean(mean, [torch.zeros(3)], torch.tensor(100_000))
    torch.testing.assert_close(mean[0], AVERAGE * before)
