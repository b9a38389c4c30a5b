"""Numbers in Prometheus' text format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oatkit.serve.metrics import Metrics


def values(metrics: Metrics) -> dict[str, float]:
    """Name and labels of every number to its value."""
    lines = [line for line in metrics.render().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def explained(metrics: Metrics) -> list[str]:
    """Names of the metrics, but for the times at which they began."""
    lines = [line for line in metrics.render().splitlines() if line.startswith("# HELP")]
    return [line.split()[2] for line in lines if not line.split()[2].endswith("_created")]


def add_reply(metrics: Metrics, **changes: Any) -> None:
    facts = {"request_s": 0.03, "infer_s": 0.02, "budget_used": 4, "batch_size": 1}
    metrics.add_reply(**{**facts, "is_in_time": None, **changes})


def test_replies_are_counted() -> None:
    waiting = [3.0]
    metrics = Metrics(
        budgets=(1, 2, 4, 8), max_batch=8, queue_depth=lambda: waiting[0], connections=lambda: 2
    )
    add_reply(metrics)
    add_reply(metrics, budget_used=8, batch_size=8, request_s=100.0, is_in_time=True)
    add_reply(metrics, budget_used=1, is_in_time=False)
    waiting[0] = 5.0
    found = values(metrics)
    assert found['oatkit_requests_total{outcome="ok"}'] == 3
    bounds = ("1.0", "2.0", "4.0", "8.0", "+Inf")
    counts = [found[f'oatkit_budget_used_bucket{{le="{bound}"}}'] for bound in bounds]
    assert counts == [1, 1, 2, 3, 3]
    assert (found["oatkit_budget_used_sum"], found["oatkit_budget_used_count"]) == (13, 3)
    assert found['oatkit_request_seconds_bucket{le="10.0"}'] == 2
    assert found['oatkit_batch_size_bucket{le="8.0"}'] == 3
    assert found['oatkit_deadlines_total{outcome="met"}'] == 1
    assert found['oatkit_deadlines_total{outcome="missed"}'] == 1
    assert (found["oatkit_queue_depth"], found["oatkit_connections"]) == (5, 2)


def test_what_has_no_reply_is_counted() -> None:
    metrics = Metrics(budgets=(1,), max_batch=1, queue_depth=lambda: 0, connections=lambda: 0)
    other = Metrics(budgets=(1,), max_batch=1, queue_depth=lambda: 0, connections=lambda: 0)
    metrics.add_request("busy")
    metrics.add_error("timeout")
    assert values(metrics)['oatkit_requests_total{outcome="busy"}'] == 1
    assert values(metrics)['oatkit_errors_total{kind="timeout"}'] == 1
    assert 'oatkit_errors_total{kind="timeout"}' not in values(other), "servers count apart"


def test_any_name_of_a_dimension_is_one_label() -> None:
    metrics = Metrics(budgets=(1,), max_batch=1, queue_depth=lambda: 0, connections=lambda: 0)
    metrics.add_out_of_range('the "left"\n\\joint')
    assert values(metrics)[r'oatkit_out_of_range_total{dimension="the \"left\"\n\\joint"}'] == 1


def test_every_metric_says_what_it_is() -> None:
    metrics = Metrics(budgets=(1,), max_batch=1, queue_depth=lambda: 0, connections=lambda: 0)
    assert len(explained(metrics)) == 10
    assert all(name.startswith("oatkit_") for name in explained(metrics))


def test_the_page_on_serving_lists_all_metrics() -> None:
    metrics = Metrics(budgets=(1,), max_batch=1, queue_depth=lambda: 0, connections=lambda: 0)
    page = (Path(__file__).parents[2] / "docs/serving.md").read_text()
    assert set(re.findall(r"`(oatkit_\w+)(?:{\w+})?`", page)) == set(explained(metrics))
