from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from oatkit import Normalizer
from oatkit.data.normalizer import MODES
from oatkit.data.statistics import compute_statistics

finite = st.floats(-1e6, 1e6, width=32)


tables = st.tuples(st.integers(1, 60), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=finite)
)


@settings(max_examples=150)
@given(rows=tables, mode=st.sampled_from(MODES), use_torch=st.booleans())
def test_normalizing_is_invertible(rows: NDArray[np.float32], mode: str, use_torch: bool) -> None:
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=rows.shape[1]), mode)
    values = torch.from_numpy(rows) if use_torch else rows
    there = normalizer.normalize(values)
    back = np.asarray(normalizer.unnormalize(there))
    assert np.asarray(there).dtype == back.dtype == np.float32
    scale = np.abs(rows).max(axis=0) + np.float32(1e-30)
    assert (np.abs(back - rows) <= 1e-6 * scale).all()


@pytest.mark.parametrize(
    ("mode", "low", "high"),
    [("min_max", -1, 1), ("identity", 0, 10), ("mean_std", -(3**0.5), 3**0.5)],
)
def test_modes_mean_what_they_say(mode: str, low: float, high: float) -> None:
    rows = np.linspace(0, 10, 100_001)[:, None]
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=1), mode)
    normalized = normalizer.normalize(rows)
    np.testing.assert_allclose([normalized.min(), normalized.max()], [low, high], atol=1e-4)


def test_quantiles_leave_the_tails_outside() -> None:
    rows = np.linspace(0, 10, 10_001)[:, None]
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=1), "quantiles")
    np.testing.assert_allclose(normalizer.normalize(np.array([[0.1], [9.9]])), [[-1], [1]])
    assert np.mean(np.abs(normalizer.normalize(rows)) > 1) == pytest.approx(0.02, abs=0.001)


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_dimension_survives(mode: str) -> None:
    rows = np.full((50, 2), 0.3, np.float32)
    rows[:, 1] = np.arange(50)
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=2), mode)
    there = normalizer.normalize(rows)
    assert np.isfinite(there).all()
    if mode != "identity":
        np.testing.assert_allclose(there[:, 0], 0, atol=1e-6)
    np.testing.assert_array_equal(normalizer.unnormalize(there)[:, 0], rows[:, 0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [0.0, 0.3, -7e-9])
def test_a_held_constant_comes_back_whatever_is_given(mode: str, value: float) -> None:
    """A controller may do something else for exactly 0 than for nearly 0."""
    rows = np.full((50, 2), value, np.float32)
    rows[:, 1] = np.arange(50)
    found = compute_statistics(lambda: [rows], dim=2)
    normalizer = Normalizer.fit(found, mode, holds_constants=True)
    normalizer = Normalizer.from_json(json.loads(json.dumps(normalizer.to_json())))
    near = normalizer.normalize(rows) + np.float32(1e-4)
    for there in (near, torch.from_numpy(near)):
        back = np.asarray(normalizer.unnormalize(there))
        np.testing.assert_array_equal(back[:, 0], rows[:, 0] + (1e-4 if mode == "identity" else 0))
        assert (back[:, 1] != rows[:, 1]).any()
    if mode != "identity":
        assert not Normalizer.fit(found, mode).to_json().keys() & {"is_held"}


def test_a_normalizer_comes_back_from_json() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=3), "mean_std")
    back = Normalizer.from_json(json.loads(json.dumps(normalizer.to_json())))
    assert back.mode == "mean_std"
    np.testing.assert_array_equal(back.normalize(rows), normalizer.normalize(rows))


def test_wrong_modes_and_shapes() -> None:
    found = compute_statistics(lambda: [np.ones((4, 2))], dim=2)
    with pytest.raises(ValueError, match=r"mode 'minmax'; known, closest first: min_max"):
        Normalizer.fit(found, "minmax")
    values = Normalizer.fit(found).to_json() | {"mode": "meanstd"}
    with pytest.raises(ValueError, match="unknown normalization mode 'meanstd'"):
        Normalizer.from_json(values)
    with pytest.raises(ValueError, match=r"last axis of \(4, 3\) is not the 2 dimensions"):
        Normalizer.fit(found).normalize(np.ones((4, 3)))


def test_integers_and_lists_are_normalized_as_floats() -> None:
    rows = np.array([[0.0, -1.0], [3.0, 1.5]])
    normalizer = Normalizer.fit(compute_statistics(lambda: [rows], dim=2))
    expected = normalizer.normalize(np.array([[1.0, 1.0]]))
    for values in (np.array([[1, 1]]), [[1, 1]], torch.tensor([[1, 1]])):
        np.testing.assert_allclose(normalizer.normalize(values), expected, rtol=1e-6)
