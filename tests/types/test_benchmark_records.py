"""Records of benchmarks, as JSON and back."""

from __future__ import annotations

import json

from oatkit.storage.records import record_from_json, record_to_json
from oatkit.types import BenchmarkEvaluation, BenchmarkPart, SuccessRate, TaskResult


def test_a_record_survives_json() -> None:
    rate = SuccessRate(successes=3, episodes=4, rate=0.75, low=0.3, high=0.95)
    part = BenchmarkPart("libero_10", (TaskResult("libero_10/0", rate, score=None),), rate)
    settings = {"budget": "auto", "sampling": {"top_k": None}, "env_kwargs": {}}
    record = BenchmarkEvaluation(
        "p", "light-libero", settings, {}, parts=(part,), mean_success=0.75
    )
    values = json.loads(json.dumps(record_to_json(record)))
    assert values["schema"] == "oatkit/benchmark-evaluation"
    assert record_from_json(BenchmarkEvaluation, values) == record
