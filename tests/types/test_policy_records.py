"""Records about policies survive JSON, whatever budget they have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest

from oatkit.storage.records import record_from_json, record_to_json
from oatkit.types import (
    Budget,
    BudgetResult,
    EpisodeResult,
    EpisodeVideo,
    PairedComparison,
    PolicyAblation,
    PolicyBudget,
    PolicyEvaluation,
    PolicySweep,
    PolicySweepRow,
    SuccessRate,
    TaskResult,
)

RATE = SuccessRate(successes=1, episodes=2, rate=0.5, low=0.1, high=0.9)


def result(budget: Budget) -> BudgetResult:
    return BudgetResult(
        budget=budget,
        tasks=(TaskResult("near", RATE, score=None),),
        success=RATE,
        mean_success=0.5,
        score=None,
        steps=20.0,
        calls=2.0,
        tokens=4.0,
        latency_ms=None,
    )


@pytest.mark.parametrize("budget", [8, "auto", None])
def test_an_evaluation_survives_json(budget: Budget) -> None:
    episode = EpisodeResult(
        task="near",
        budget=budget,
        episode=0,
        seed=1,
        is_success=True,
        score=None,
        steps=20,
        queries=2,
        calls=2.0,
        tokens=4.0,
        latency_ms=1.5,
        clipped=0.0,
        repeats=0,
        error=None,
    )
    record = PolicyEvaluation(
        policy="out/policy",
        kind="oat",
        settings={"env": "plane"},
        versions={},
        latencies_ms={"8": 1.0, "auto": None},
        episodes=(episode, replace(episode, episode=1, error="no chunk")),
        budgets=(result(budget),),
        comparisons=(PairedComparison("1", "8", 2, 0, 1, 0.5, -0.1, 0.9, 1.0),),
        videos=(EpisodeVideo("near", budget, 0, "videos/a.mp4"),),
    )
    values = json.loads(json.dumps(record_to_json(record)))
    assert values["episodes"][0]["budget"] == budget
    assert record_from_json(PolicyEvaluation, values) == record


@pytest.mark.parametrize("ablation", get_args(PolicyAblation))
def test_a_sweep_survives_json(ablation: PolicyAblation) -> None:
    row = PolicySweepRow(ablation, 16, 32, 8, (8, 5, 5, 5), 1000, 123, 4.5, result(8))
    record = PolicySweep("data", {"seed": 0}, (row,))
    back = record_from_json(PolicySweep, json.loads(json.dumps(record_to_json(record))))
    assert back == record
    assert back.rows[0].levels == (8, 5, 5, 5)


def test_nothing_that_decodes_has_no_errors() -> None:
    found = PolicyBudget("auto", 0.0, 1.0, None, None, 0.1, ())
    back = record_from_json(PolicyBudget, json.loads(json.dumps(record_to_json(found))))
    assert back == found
    assert back.mse is None
