"""The Gaussian reference against a search for the water level, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from oatkit.measure.gaussian import (
    eigenvalues,
    fitted_gaussian_distortion,
    gaussian_distortion,
)

spectra = arrays(np.float64, st.integers(1, 20), elements=st.floats(1e-6, 1e3))


@given(spectra, st.floats(0, 200))
def test_water_filling_spends_exactly_the_bits(spectrum: NDArray[np.float64], bits: float) -> None:
    distortion = gaussian_distortion(spectrum, bits)
    low, high = 0.0, spectrum.max()
    for _ in range(200):  # bisection on the water level
        level = (low + high) / 2
        rate = np.maximum(0, 0.5 * np.log2(spectrum / max(level, 1e-300))).sum()
        low, high = (level, high) if rate > bits else (low, level)
    assert distortion == pytest.approx(np.minimum(high, spectrum).mean(), rel=1e-6, abs=1e-12)


def test_white_noise_has_the_textbook_distortion() -> None:
    assert gaussian_distortion(np.ones(8), 16) == pytest.approx(2.0 ** (-2 * 16 / 8))
    assert gaussian_distortion(np.array([4.0, 0.0]), 1) == pytest.approx(0.5)
    assert gaussian_distortion(np.zeros(3), 5) == 0


def test_eigenvalues_are_the_variances_of_independent_numbers() -> None:
    rng = np.random.default_rng(0)
    chunks = (rng.normal(size=(200_000, 2, 2)) * [[1, 2], [3, 4]] + 5).astype(np.float32)
    np.testing.assert_allclose(eigenvalues(chunks), [1, 4, 9, 16], rtol=0.02)


@given(st.integers(0, 1000), st.floats(0, 60))
def test_a_code_fitted_on_other_chunks_leaves_no_less(seed: int, bits: float) -> None:
    """It leaves as much where the other chunks are the same, and more where they are not."""
    rng = np.random.default_rng(seed)
    train, held_out = rng.normal(size=(2, 50, 3, 2)).astype(np.float32) * [1, 3]
    own = gaussian_distortion(eigenvalues(held_out), bits)
    assert fitted_gaussian_distortion(held_out, held_out, bits) == pytest.approx(own, rel=1e-6)
    assert fitted_gaussian_distortion(train, held_out, bits) >= own * (1 - 1e-6)


def test_the_mean_and_the_bits_are_those_of_the_training_chunks() -> None:
    rng = np.random.default_rng(0)
    train = (rng.normal(size=(100_000, 1, 2)) * [4, 1]).astype(np.float32)
    held_out = (rng.normal(size=(100_000, 1, 2)) * [1, 4] + [3, 0]).astype(np.float32)
    # 2 bits of a variance of 16 leave 1, as much as the other: (1 + 9) / 16 and 16 are left
    assert fitted_gaussian_distortion(train, held_out, 2) == pytest.approx((10 / 16 + 16) / 2, 0.02)
