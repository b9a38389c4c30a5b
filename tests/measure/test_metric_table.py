"""The table of metrics: what is computed, where it goes, and how it is shown."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch

from oatkit.measure.metric_table import METRICS, Metric, format_metric, measure_metrics
from oatkit.types import BudgetMeasurement
from tests.measure.decoded import decoded

DOCS = Path(__file__).parents[2] / "docs/measuring.md"


def test_every_number_of_the_record_is_a_metric_or_an_error_of_each_dimension() -> None:
    others = {"budget", "is_trained", "mae", "worst", "more"}
    assert {field.name for field in fields(BudgetMeasurement)} - others <= set(METRICS)


def test_a_further_metric_goes_into_more(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted_BTA = torch.zeros(3, 4, 2)
    found_BTA = wanted_BTA + torch.tensor([1.0, -3.0])
    monkeypatch.setitem(METRICS, "bias", Metric("bias", "mean error", lambda f: f.error.mean()))
    measured = measure_metrics(decoded(wanted_BTA, found_BTA), is_trained=True)
    assert measured.more == {"overlap": 1.0, "bias": -1.0}
    assert (measured.budget, measured.is_trained) == (2, True)
    assert (measured.mae, measured.worst) == ((1.0, 3.0), (1.0, 3.0))
    assert (measured.mse, measured.bits) == (5.0, 8.0)
    assert format_metric("bias", measured) == "-1"
    assert format_metric("bits", measured) == "8"


def test_a_record_from_before_a_metric_has_no_text_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measure_metrics(decoded(torch.zeros(1, 4, 1), torch.ones(1, 4, 1)), is_trained=False)
    monkeypatch.setitem(METRICS, "bias", Metric("bias", "mean error", lambda f: f.error.mean()))
    assert format_metric("bias", measured) == ""


def test_the_docs_list_every_metric() -> None:
    rows = [f"| `{name}` | {m.heading} | {m.meaning} |" for name, m in METRICS.items()]
    assert "\n".join(rows) in DOCS.read_text()
