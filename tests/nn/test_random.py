"""Draws belong to the sample: not to the batch it is in, nor to anything drawn elsewhere."""

from __future__ import annotations

import torch

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.transformer import drop


def test_a_sample_draws_the_same_in_any_batch() -> None:
    whole = SampleRandom(sample_keys(3, 7, torch.arange(10)))
    part = SampleRandom(sample_keys(3, 7, torch.arange(4, 7)))
    for shape in ((), (5,), (2, 3)):
        torch.testing.assert_close(part.uniform(*shape), whole.uniform(*shape)[4:7], rtol=0, atol=0)


def test_seeds_steps_samples_and_draws_differ() -> None:
    draws = [
        SampleRandom(sample_keys(seed, step, torch.arange(8))).uniform(16)
        for seed in range(3)
        for step in range(3)
    ]
    random = SampleRandom(sample_keys(0, 0, torch.arange(8)))
    random.uniform(16)
    draws.append(random.uniform(16))
    values = torch.stack(draws)
    assert len(values.unique()) > 0.999 * values.numel()


def test_draws_are_uniform_and_uncorrelated() -> None:
    values = SampleRandom(sample_keys(1, 2, torch.arange(2000))).uniform(500)
    assert 0 <= values.min() < 1e-4
    assert 1 - 1e-4 < values.max() < 1
    counts = torch.histc(values, 20, 0, 1) / values.numel()
    assert (counts - 0.05).abs().max() < 0.001
    centered = values - 0.5
    for shifted in (centered.roll(1, 0), centered.roll(1, 1)):
        assert abs((centered * shifted).mean() / (1 / 12)) < 0.005


def test_dropout_keeps_the_mean_and_needs_both_a_share_and_random() -> None:
    x = torch.ones(500, 40)
    random = SampleRandom(sample_keys(0, 0, torch.arange(500)))
    dropped = drop(x, 0.25, random)
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(dropped.mean() - 1) < 0.01
    assert torch.equal(drop(x, 0.0, random), x)
    assert torch.equal(drop(x, 0.25, None), x)
