"""A network that regresses chunks: it learns, acts like any policy, and is on the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from benchmarks.regression import Regression, RegressionPolicy, Samples, errors, train
from benchmarks.report_regression import regression
from oatkit.data import Normalizer
from oatkit.evaluation.success_statistics import success_rate
from oatkit.policies.observation.observation_spec import ObservationSpec


def test_it_learns_and_a_seed_gives_the_same_network() -> None:
    torch.manual_seed(0)
    state, task = torch.randn(400, 3), torch.arange(400) % 2
    actions = torch.where(task == 1, state[:, 0], -state[:, 1])[:, None, None].expand(-1, 32, 2)
    given = Samples(state, task, actions.clamp(-1, 1))
    before = errors(Regression(3, 2, 2).eval(), given)["mae"]
    first, again = (train(given, seed=1, steps=40)[0] for _ in range(2))
    assert errors(first, given)["mae"] < 0.6 * before
    assert errors(first, given) == errors(again, given)


def test_it_acts_on_a_batch_with_its_history() -> None:
    spec = ObservationSpec(1, Normalizer("identity", np.zeros(3), np.ones(3)), {}, ("go", "stop"))
    policy = RegressionPolicy(Regression(3, 2, 2).eval(), spec)
    observed = {"observation.state": np.zeros((4, 1, 3), np.float32), "task": ["go"] * 3 + ["stop"]}
    chunk = policy.predict_action_chunk(observed).chunk
    assert chunk.shape == (4, 32, 2)
    assert np.array_equal(chunk[0], chunk[1])
    assert not np.array_equal(chunk[0], chunk[3]), "the task is read"


def test_the_page_has_all_seeds() -> None:
    def row(successes: int) -> dict[str, Any]:
        rate = asdict(success_rate(successes, 10))
        found = {"tasks": [{"task": "box-close", "success": rate}], "success": rate}
        return {
            **{"parameters": 1000, "steps": 5, "batch_size": 4, "seconds": 1.0},
            **{"held_out": {"mae": 0.25}, "rules": {"8 steps": found}},
        }

    text = regression({"results": {"0": row(4), "1": row(8)}})
    assert "| 8 steps | 60.0 (39 - 78): 40.0, 80.0 | 60 |" in text
    assert "is 0.250." in text
