"""Which representation costs fewest tokens."""

from __future__ import annotations

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.representation_comparison import RepresentationPlan
from oatkit.types import RepresentationMeasurement

SPLIT = {"held_out": 0.2, "split_seed": 0}


@pytest.fixture
def dataset(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Commands that stay near to where the robot is, which is anywhere."""
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    rng = np.random.default_rng(0)
    state = [
        np.cumsum(0.05 * rng.normal(size=(20, 2)), axis=0) + rng.normal(size=2) * 5
        for _ in range(30)
    ]
    actions = [rows + 0.05 * rng.normal(size=2) for rows in state]
    return oatkit.open_dataset({"action": actions, "observation.state": state})


def run(
    plan: RepresentationPlan, *known: RepresentationMeasurement
) -> tuple[list[str], tuple[RepresentationMeasurement, ...]]:
    said: list[str] = []
    found = plan.run(known, SPLIT, lambda _: {"horizon": 8, "num_tokens": 4}, said.append)
    return said, found


def test_what_follows_the_state_is_cheapest_relative_to_it(dataset: Dataset) -> None:
    plan = RepresentationPlan.of(dataset, ("absolute", "delta", "relative"), ("klt", "oat"))
    said, found = run(plan)
    assert said == ["klt, actions absolute", "klt, actions delta", "klt, actions relative"]
    errors = {one.actions: one.measurement.budgets[1].mse for one in found}
    assert errors["relative"] < 0.5 * errors["absolute"]
    said, again = run(plan, *found)
    assert (said, again) == ([], found)


def test_wrong_representations_are_errors_at_once(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="unknown way to represent actions 'relativ'"):
        RepresentationPlan.of(dataset, ("relativ",), ("klt",))
    with pytest.raises(ValueError, match="--representations are compared by klt and fast"):
        RepresentationPlan.of(dataset, ("delta",), ("oat", "bin"))
