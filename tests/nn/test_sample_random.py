"""Random numbers belong to the sample: not to its batch, nor to anything sampled elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from oatkit.nn.sample_random import SampleRandom, sample_keys


def test_a_sample_has_the_same_numbers_in_any_batch() -> None:
    whole = SampleRandom(sample_keys(3, 7, torch.arange(10)))
    part = SampleRandom(sample_keys(3, 7, torch.arange(4, 7)))
    for shape in ((), (5,), (2, 3)):
        torch.testing.assert_close(part.uniform(*shape), whole.uniform(*shape)[4:7], rtol=0, atol=0)


def test_seeds_steps_samples_and_calls_differ() -> None:
    found = [
        SampleRandom(sample_keys(seed, step, torch.arange(8))).uniform(16)
        for seed in range(3)
        for step in range(3)
    ]
    random = SampleRandom(sample_keys(0, 0, torch.arange(8)))
    random.uniform(16)
    found.append(random.uniform(16))
    values = torch.stack(found)
    assert len(values.unique()) > 0.999 * values.numel()


def test_numbers_are_uniform_and_uncorrelated() -> None:
    values = SampleRandom(sample_keys(1, 2, torch.arange(2000))).uniform(500)
    assert 0 <= values.min() < 1e-4
    assert 1 - 1e-4 < values.max() < 1
    counts = torch.histc(values, 20, 0, 1) / values.numel()
    assert (counts - 0.05).abs().max() < 0.001
    centered = values - 0.5
    for shifted in (centered.roll(1, 0), centered.roll(1, 1)):
        assert abs((centered * shifted).mean() / (1 / 12)) < 0.005


def test_normal_numbers_are_standard_normal() -> None:
    random = SampleRandom(sample_keys(0, 0, torch.arange(2000)))
    found = random.normal(3).numpy()
    assert np.isfinite(found).all()
    assert stats.kstest(found.ravel(), "norm").pvalue > 0.01


def splitmix64(x: int) -> int:
    """The finalizer of splitmix64, in whole numbers of Python."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def test_numbers_are_those_of_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    seed, step, sample = 5, 11, 3
    mixed = splitmix64((splitmix64(seed) + step * golden) % 2**64)
    key = splitmix64((mixed + (sample + 1) * golden) % 2**64)
    random = SampleRandom(sample_keys(seed, step, torch.arange(4)))
    for call in (1, 2):
        stream = splitmix64((key + call * golden) % 2**64)
        wanted = [splitmix64((stream + i * golden) % 2**64) >> 40 for i in range(6)]
        assert (random.uniform(6)[sample] * 2**24).long().tolist() == wanted
