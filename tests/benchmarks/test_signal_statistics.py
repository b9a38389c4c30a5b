"""Statistics of signals: as scipy and numpy have them, and true where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from benchmarks import signal_statistics
from benchmarks.signal_statistics import (
    correlations,
    expected_error,
    explained,
    explained_shares,
    out_of_fold,
    rank_correlation,
    resampled,
    saved_shares,
    steps_by,
)

EPISODE_N = np.repeat(np.arange(12), 30)


@pytest.fixture(autouse=True)
def few_resamplings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_statistics, "NUM_RESAMPLINGS", 100)


@given(st.lists(st.integers(0, 5), min_size=3, max_size=30), st.integers(0, 1000))
def test_rank_correlation_is_scipys_ties_included(values: list[int], seed: int) -> None:
    other = np.random.default_rng(seed).integers(0, 4, len(values))
    if len(set(values)) == 1 or len(set(other.tolist())) == 1:
        assert rank_correlation(np.array(values, float), other.astype(float)) == 0
    else:
        found = rank_correlation(np.array(values, float), other.astype(float))
        assert found == pytest.approx(spearmanr(values, other).statistic)


def test_an_episode_is_expected_from_the_others() -> None:
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(len(EPISODE_N), 2))
    error = 1 + signals @ [2.0, -1.0] + rng.normal(size=len(EPISODE_N))
    found = out_of_fold(signals, error, EPISODE_N)
    is_first = EPISODE_N == 0
    given = np.column_stack([np.ones(len(error)), signals])
    others = given[~is_first]
    weights = np.linalg.solve(others.T @ others, others.T @ error[~is_first])
    assert found[is_first] == pytest.approx(given[is_first] @ weights)
    mean = out_of_fold(np.empty((len(error), 0)), error, EPISODE_N)
    assert mean[is_first] == pytest.approx(error[~is_first].mean())
    assert explained(error, error, mean) == 1
    assert explained(error, mean, mean) == 0


def test_intervals_hold_the_value_and_draw_whole_episodes() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=12), 30)
    found = resampled(lambda rows: float(values[rows].mean()), EPISODE_N, seed=0)
    assert found.low < found.value == values.mean() < found.high
    by_observation = resampled(
        lambda rows: float(values[rows].mean()), np.arange(len(values)), seed=0
    )
    assert found.high - found.low > 2 * (by_observation.high - by_observation.low)
    assert found == resampled(lambda rows: float(values[rows].mean()), EPISODE_N, seed=0)


def test_a_signal_that_adds_nothing_is_told_from_one_that_adds_much() -> None:
    rng = np.random.default_rng(1)
    good, other, noise = (np.exp(rng.normal(size=len(EPISODE_N))) for _ in range(3))
    error = good * other * np.exp(rng.normal(size=len(EPISODE_N)))
    sets = [(good,), (good, other), (good, noise)]
    expected = [expected_error(each, error, EPISODE_N) for each in sets]
    first, both, useless = explained_shares(expected, error, EPISODE_N, seed=0)
    assert first.value.value == pytest.approx(1 / 3, abs=0.1)
    assert both.value.value == pytest.approx(2 / 3, abs=0.1)
    assert first.beyond_first.low == first.beyond_first.value == first.beyond_first.high == 0
    assert both.beyond_first.low > 0.05
    assert useless.beyond_first.value < 0.01
    ranks = correlations({"good": good, "noise": noise}, error, EPISODE_N, seed=0)
    assert ranks["good"].low > 0.3
    assert ranks["noise"].low < 0 < ranks["noise"].high


def test_steps_by_a_good_signal_save_error_and_steps_regardless_save_none() -> None:
    rng = np.random.default_rng(2)
    good, noise = (np.exp(rng.normal(size=len(EPISODE_N))) for _ in range(2))
    error_NT = good[:, None] * np.linspace(1, 1.5, 32)
    by_good, by_noise = (steps_by(each, error_NT, EPISODE_N) for each in (good, noise))
    assert by_good[good < 0.3].min() == 4
    assert by_good[good > 3].max() == 2
    always = np.full(len(EPISODE_N), 3)
    none, much, little = saved_shares([always, by_good, by_noise], error_NT, EPISODE_N, seed=0)
    assert none.value.value == pytest.approx(0)
    assert much.value.low > 0.05
    assert much.beyond_first.value == pytest.approx(much.value.value)
    assert little.value.low < 0 < little.value.high or little.value.value == pytest.approx(0)


def test_what_is_saved_is_the_error_of_executed_steps() -> None:
    steps = np.array([2, 4])
    error_NT = np.array([[3.0, 3, 3, 3, 9], [1.0, 1, 1, 1, 9]])
    (found,) = saved_shares([steps], error_NT, np.array([0, 1]), seed=0)
    executed, regardless = 2 * 3 + 4 * 1, 2 * 2 * 2 + 2 * 2 * 1
    assert found.value.value == pytest.approx(1 - executed / regardless)
