"""The normalizer of represented actions."""

from __future__ import annotations

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset, Normalizer, action_normalizer
from oatkit.data.action_normalizer import fit_action_normalizer
from oatkit.types import NormalizationMode


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    state = [np.cumsum(rng.normal(size=(30, 2)), axis=0) for _ in range(3)]
    actions = [rows + 0.1 * rng.normal(size=rows.shape) + 100 for rows in state]
    return oatkit.open_dataset({"action": actions, "observation.state": state})


def fit(dataset: Dataset, words: str | None, mode: NormalizationMode = "min_max") -> Normalizer:
    transform = dataset.represented_as(words).transform
    return fit_action_normalizer(dataset, dataset.action_statistics(), mode, transform, horizon=5)


def test_actions_as_they_are_have_the_plain_normalizer(dataset: Dataset) -> None:
    plain = Normalizer.fit(dataset.action_statistics())
    assert fit(dataset, None).to_json() == plain.to_json()
    assert set(plain.to_json()) == {"mode", "offset", "scale"}


@pytest.mark.parametrize("words", ["relative", "delta", "relative:0 delta:1"])
def test_represented_actions_fill_the_range(dataset: Dataset, words: str) -> None:
    normalizer = fit(dataset, words)
    chunks = dataset.chunks(5)
    every = np.arange(len(chunks))
    actions, state = chunks.actions(every)[0], chunks.start_states(every)
    normal = normalizer.normalize(actions, state)
    np.testing.assert_allclose([normal.min(), normal.max()], [-1, 1], atol=1e-4)
    np.testing.assert_allclose(normalizer.unnormalize(normal, state), actions, atol=1e-3)
    again = Normalizer.from_json(normalizer.to_json())
    np.testing.assert_array_equal(again.normalize(actions, state), normal)


def test_the_first_step_of_a_delta_has_its_own_size(dataset: Dataset) -> None:
    normalizer = fit(dataset, "delta")
    assert normalizer.scale.shape == (5, 2)
    assert normalizer.dim == normalizer.raw_dim == 2
    assert (normalizer.offset[0] > 50).all()
    assert (np.abs(normalizer.offset[1:]) < 5).all()


def test_a_large_dataset_is_read_at_even_distances(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = fit(dataset, "relative")
    monkeypatch.setattr(action_normalizer, "MAX_CHUNKS", 30)
    spread = fit(dataset, "relative")
    assert (spread.scale <= exact.scale).all()
    assert (spread.scale > 0.5 * exact.scale).all()


@pytest.mark.parametrize("words", [None, "delta", "relative:0"])
def test_actions_that_never_change_are_held(words: str | None) -> None:
    """Also where their first step is of its own size: the difference to the one before is 0."""
    rng = np.random.default_rng(0)
    state = [np.cumsum(rng.normal(size=(30, 2)), axis=0) for _ in range(3)]
    actions = [np.stack([rows[:, 0] + 1, np.full(30, 0.25)], axis=1) for rows in state]
    still = oatkit.open_dataset({"action": actions, "observation.state": state})
    normalizer = fit(still, words)
    chunks = still.chunks(5)
    wanted, starts = chunks.actions(np.arange(9))[0], chunks.start_states(np.arange(9))
    near = normalizer.normalize(wanted, starts) + 1e-4
    back = Normalizer.from_json(normalizer.to_json()).unnormalize(near, starts)
    np.testing.assert_array_equal(back[..., 1], wanted[..., 1])
    assert (back[..., 0] != wanted[..., 0]).any()
