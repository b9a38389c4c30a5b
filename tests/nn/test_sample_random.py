"""Random numbers belong to the sample: not to its batch, nor to anything sampled elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from oatkit.nn import sample_random
from oatkit.nn.flow import add_noise, flow_times
from oatkit.nn.sample_random import SampleRandom, sample_keys


def test_a_sample_has_the_same_numbers_in_any_batch() -> None:
    whole = SampleRandom(sample_keys(3, 7, torch.arange(10)))
    part = SampleRandom(sample_keys(3, 7, torch.arange(4, 7)))
    for shape in ((), (5,), (2, 3)):
        torch.testing.assert_close(part.uniform(*shape), whole.uniform(*shape)[4:7], rtol=0, atol=0)


@pytest.mark.parametrize("number", [1, 3, 5, 9, 33, 1000])
def test_choices_are_of_the_values_also_for_the_largest_number(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, random = range(10, 10 + number), SampleRandom(sample_keys(0, 0, torch.arange(20_000)))
    found = random.choose(values)
    assert set(found.tolist()) == set(values)
    counts = torch.bincount(found - 10) / len(found)
    assert (counts - 1 / number).abs().max() < 0.02
    monkeypatch.setattr(random, "uniform", lambda: torch.tensor([1 - 2**-24]))
    assert random.choose(values).tolist() == [values[-1]]


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


@pytest.mark.parametrize(("bits", "sign"), [(-1, 1), (0, -1)])
def test_the_outermost_cells_are_finite(
    bits: int, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 the middle of the top cell was 1 and its number infinite, on a GPU as on a CPU."""
    monkeypatch.setattr(sample_random, "_mix", lambda x: torch.full_like(x, bits))
    random = SampleRandom(torch.zeros(2, dtype=torch.int64))
    uniform_B, normal_BT = random.uniform(), random.normal(3)
    assert uniform_B.max() < 1
    assert normal_BT.dtype == torch.float32
    outermost = np.float32(-stats.norm.ppf(2**-25))
    assert normal_BT.unique().tolist() == [sign * outermost]
    assert random.is_finite
    point, velocity = add_noise(torch.zeros(2, 3), normal_BT, flow_times(uniform_B))
    assert torch.isfinite(point).all()
    assert torch.isfinite(velocity).all()


def test_the_papers_recipe_has_finite_noise_where_it_died() -> None:
    """Seed 0, batch 32, chunks of 32 x 7: step 3451, counted from 0, reaches the top cell."""
    draws = []
    for draw in ("uniform", "normal"):
        random = SampleRandom(sample_keys(0, 3451, torch.arange(32)))
        random.uniform()  # the time of the flow
        draws.append(getattr(random, draw)(32, 7))
    assert draws[0].max() == 1 - 2**-24
    assert torch.isfinite(draws[1]).all()


def test_ten_million_normal_numbers_have_the_moments_and_tails_of_scipys() -> None:
    count, powers, tails = 0, np.zeros(4), np.zeros(6)
    edges = np.array([-5.0, -4.0, -3.0, 3.0, 4.0, 5.0])
    for step in range(40):
        found = SampleRandom(sample_keys(0, step, torch.arange(1000))).normal(250).double().numpy()
        count += found.size
        powers += [np.sum(found**power) for power in (1, 2, 3, 4)]
        tails += [np.sum(found < edge) if edge < 0 else np.sum(found > edge) for edge in edges]
    assert count == 10**7
    wanted = np.array([stats.norm.moment(power) for power in (1, 2, 3, 4)])
    spread = np.sqrt([stats.norm.moment(2 * power) for power in (1, 2, 3, 4)] - wanted**2)
    assert (np.abs(powers / count - wanted) < 4 * spread / np.sqrt(count)).all()
    shares = stats.norm.sf(np.abs(edges))
    assert (np.abs(tails - count * shares) < 4 * np.sqrt(count * shares)).all()


def test_normal_numbers_are_symmetric() -> None:
    uniform = torch.arange(2**12) * 2**12 / 2**24
    mirrored = 1 - 2**-24 - uniform
    assert torch.equal(sample_random._normal(uniform), -sample_random._normal(mirrored))


def test_a_device_without_float64_gets_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = sample_keys(0, 0, torch.arange(4))
    wanted = SampleRandom(keys).normal(5)
    monkeypatch.setattr("oatkit.nn.device.WITHOUT_FLOAT64", ("cpu",))
    assert torch.equal(SampleRandom(keys).normal(5), wanted)


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
