"""Predictions hold arrays like those of the observation."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.prediction import (
    Prediction,
    PredictionOptions,
    to_prediction,
)
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.types import STOP_REASONS, Tokens
from tests.nn.pretended_devices import AsynchronousClock
from tests.policies import tiny


def generated(batch_size: int) -> GeneratedChunks:
    ones_B = torch.ones(batch_size, dtype=torch.int64)
    return GeneratedChunks(
        chunk=torch.arange(batch_size * 6.0).view(batch_size, 3, 2),
        tokens=Tokens(torch.arange(batch_size * 4).view(batch_size, 4), 2 * ones_B),
        entropy_bits=torch.rand(batch_size, 4),
        calls=3 * ones_B,
        attempts=ones_B,
        undecodable={},
        stopped=torch.arange(batch_size) % len(STOP_REASONS),
    )


def predicted(
    given: GeneratedChunks,
    observation: dict[str, Any],
    *,
    is_single_frame: bool = False,
    began: float = 0.0,
    **options: Any,
) -> Prediction:
    how = PredictionOptions(**options)
    return to_prediction(
        given, observation, is_single_frame=is_single_frame, began=began, options=how
    )


def test_numpy_gives_numpy_and_torch_gives_torch() -> None:
    began = time.perf_counter()
    given, wanted = generated(2), generated(2).chunk.numpy()
    for_numpy = predicted(given, {"x": np.zeros(2)}, is_single_frame=False, began=began)
    for_torch = predicted(given, {"x": torch.zeros(2)}, is_single_frame=False, began=began)
    np.testing.assert_array_equal(for_numpy.chunk, wanted)
    assert isinstance(for_numpy.ids, np.ndarray)
    assert isinstance(for_torch.chunk, torch.Tensor)
    assert for_numpy.budget.tolist() == for_torch.budget.tolist() == [2, 2]
    assert for_numpy.calls.tolist() == [3, 3]
    assert for_numpy.elapsed_ms > 0
    assert for_numpy.stopped == for_torch.stopped == ["all", "budget"]


def test_the_time_is_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a chunk that stays there would be answered before it is computed."""
    clock = AsynchronousClock(monkeypatch)
    clock.launch(0.007)
    found = predicted(generated(2), {"x": torch.zeros(2)}, is_single_frame=False, began=0.0)
    assert found.elapsed_ms == pytest.approx(7)


def test_one_frame_is_answered_without_a_batch_axis() -> None:
    found = predicted(generated(1), {"x": np.zeros(2)}, is_single_frame=True, began=0.0)
    assert found.chunk.shape == (3, 2)
    assert found.ids.tolist() == [0, 1, 2, 3]
    assert (int(found.budget), int(found.calls), int(found.attempts)) == (2, 3, 1)
    assert found.stopped == "all"


def test_draws_stand_behind_one_another() -> None:
    found = predicted(generated(6), {"x": np.zeros(2)}, draws=3)
    whole = generated(6).chunk.numpy()
    np.testing.assert_array_equal(found.chunk, whole[:2])
    np.testing.assert_array_equal(found.draws, np.stack([whole[[0, 2, 4]], whole[[1, 3, 5]]]))
    assert (found.budget.shape, found.ids.shape) == ((2,), (2, 4))
    one = predicted(generated(3), {"x": np.zeros(2)}, is_single_frame=True, draws=3)
    np.testing.assert_array_equal(one.draws, generated(3).chunk.numpy())
    assert predicted(generated(2), {"x": np.zeros(2)}).draws is None


def test_what_was_read_is_answered_with_numpy(
    dataset: Dataset, policies: dict[str, Policy]
) -> None:
    policy = policies["oat-pow2"]
    read = policy.read(tiny.batch(policy, dataset))
    found = policy.predict_action_chunk(read)
    assert isinstance(found.chunk, np.ndarray)
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
