"""The table of metrics that a tokenizer is measured by at every budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from oatkit.measure import budget_metrics
from oatkit.measure.decoded_budget import DecodedBudget
from oatkit.types import BudgetMeasurement


@dataclass(frozen=True)
class Metric:
    """One number of a budget: how it is computed, and how it is shown.

    Attributes:
        heading: Short name at the head of a column.
        meaning: Explanation for readers of the report, without a full stop.
        compute: Function that gives the number.
        format_spec: Format of the number in tables, as `format` takes it.
        is_in_terminal: Whether the terminal shows it too; the report shows every metric.
    """

    heading: str
    meaning: str
    compute: Callable[[DecodedBudget], float]
    format_spec: str = ".3g"
    is_in_terminal: bool = True


METRICS: dict[str, Metric] = {
    "tokens": Metric("tokens", "mean number of tokens", budget_metrics.tokens),
    "bits": Metric("bits", "tokens times log2 of the vocabulary", budget_metrics.bits, ".0f"),
    "entropy_bits": Metric(
        "entropy", "bits that the ids of each slot are worth", budget_metrics.entropy_bits, ".0f"
    ),
    "mse": Metric("MSE", "mean squared error in raw units", budget_metrics.mse, ".2e"),
    "mse_without_padding": Metric(
        "without padding",
        "MSE of the steps within episodes",
        budget_metrics.mse_without_padding,
        ".2e",
        is_in_terminal=False,
    ),
    "mse_normalized": Metric(
        "normalized",
        "MSE in the tokenizer's normalized units",
        budget_metrics.mse_normalized,
        ".2e",
        is_in_terminal=False,
    ),
    "gaussian_mse": Metric(
        "Gaussian",
        "MSE that an ideal linear code of a Gaussian source leaves at these bits",
        budget_metrics.gaussian_mse,
        ".2e",
    ),
    "jerk_ratio": Metric(
        "jerk",
        "squared third difference over the true one, 1 is as smooth",
        budget_metrics.jerk_ratio,
        ".2f",
    ),
    "overlap": Metric(
        "overlap",
        "share of the tokens that the chunk one step later has too, in the same place",
        budget_metrics.overlap,
        ".0%",
    ),
}
"""Metrics by their names in the record. A number whose name is no field of `BudgetMeasurement` goes
into its `more`, unless it is NaN."""

_FIELDS = frozenset(field.name for field in fields(BudgetMeasurement))


def measure_metrics(found: DecodedBudget, *, is_trained: bool) -> BudgetMeasurement:
    """Compute every metric of the table, and the errors of each dimension."""
    numbers = {name: metric.compute(found) for name, metric in METRICS.items()}
    error_BTA = abs(found.error)
    return BudgetMeasurement(
        budget=found.budget,
        is_trained=is_trained,
        mae=tuple(error_BTA.mean(axis=(0, 1)).tolist()),
        worst=tuple(error_BTA.max(axis=(0, 1)).tolist()),
        more={
            name: number
            for name, number in numbers.items()
            if name not in _FIELDS and not math.isnan(number)
        },
        **{name: number for name, number in numbers.items() if name in _FIELDS},
    )


def format_metric(name: str, measured: BudgetMeasurement) -> str:
    """A metric as text; empty where the record was written before the metric existed."""
    number = getattr(measured, name) if name in _FIELDS else measured.more.get(name)
    return "" if number is None else format(number, METRICS[name].format_spec)
