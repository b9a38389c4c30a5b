"""Measurements against slow or closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import oatkit
from oatkit.measure import measure_tokenizer
from oatkit.measure.gaussian import eigenvalues, gaussian_distortion
from oatkit.measure.policy_metrics import _variance_ratio
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.types import TokenizerMeasurement

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


def measure(kind: str, folder: Path, **settings: object) -> TokenizerMeasurement:
    rng = np.random.default_rng(0)
    path = folder / "walks.npz"
    actions = rng.normal(size=(1200, 3)).cumsum(axis=0) * [1, 10, 0.1]
    np.savez(path, action=actions, episode_ends=np.arange(100, 1201, 100))
    dataset = oatkit.open_dataset(path)
    config = make_config(kind, horizon=8, action_dim=3, **settings)
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    if hasattr(tokenizer.codec, "fit"):
        import torch

        chunks = dataset.chunks(8)
        normalized = tokenizer.normalizer.normalize(chunks.actions(np.arange(len(chunks)))[0])
        tokenizer.codec.fit(lambda: iter([torch.from_numpy(normalized)]))
    return measure_tokenizer(tokenizer, dataset, path="p", split="all")


def test_an_ordered_kind(tmp_path: Path) -> None:
    found = measure("klt", tmp_path, num_tokens=6, levels=(5, 4))
    assert [b.budget for b in found.budgets] == list(range(7))
    assert [b.budget for b in found.budgets if b.is_trained] == [1, 2, 4, 6]
    errors = [b.mse for b in found.budgets]
    assert errors == sorted(errors, reverse=True)
    last = found.budgets[-1]
    assert last.bits == pytest.approx(6 * math.log2(20))
    assert 0 < last.entropy_bits <= last.bits
    assert last.mse != last.mse_without_padding
    assert all(w >= m for w, m in zip(last.worst, last.mae, strict=True))
    assert len(found.slots) == 6
    assert all(0 < s.usage <= 1 and 1 <= s.perplexity <= 20 for s in found.slots)
    assert (found.robustness.random_finite, found.robustness.random_undecodable) == (1, 0)
    assert found.robustness.corrupted_mse > 0
    assert found.encode_chunks_per_s > 0


def test_the_numbers_of_bin_are_those_of_its_bins(tmp_path: Path) -> None:
    found = measure("bin", tmp_path)
    (only,) = found.budgets
    assert (only.tokens, only.bits) == (24, 192)
    assert only.mse_normalized == pytest.approx((2 / 256) ** 2 / 12, rel=0.1)
    assert only.jerk_ratio == pytest.approx(1, abs=0.01)


def test_fast_counts_what_does_not_decode(tmp_path: Path) -> None:
    found = measure("fast", tmp_path, vocab_size=300)
    (only,) = found.budgets
    assert only.tokens < found.max_tokens
    assert 0 < only.entropy_bits <= only.bits, "slots that few sequences reach count little"
    assert found.robustness.random_undecodable > 0.5
    assert found.robustness.corrupted_undecodable > 0.1
    finite, broken = found.robustness.random_finite, found.robustness.random_undecodable
    assert finite + broken == pytest.approx(1)


def test_a_dimension_that_never_moves_has_no_ratio_of_variances() -> None:
    wanted_BTA = torch.stack([torch.arange(12.0).view(3, 4), torch.ones(3, 4)], dim=-1)
    ratio, constant = _variance_ratio(2 * wanted_BTA, wanted_BTA)
    assert ratio == pytest.approx(4.0)
    assert constant is None
