"""Results on several benchmarks joined as the paper does: means, balanced averages and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from oatkit.evaluation.success_statistics import success_rate
from oatkit.types import BenchmarkEvaluation, BenchmarkRow, Budget, SuccessRate


def benchmark_rows(records: Sequence[BenchmarkEvaluation]) -> list[BenchmarkRow]:
    """The rows of a table whose columns are the benchmarks of the records."""
    found: dict[tuple[str, Budget], dict[str, BenchmarkEvaluation]] = {}
    for record in records:
        if record.parts:
            key = record.policy, record.settings["budget"]
            found.setdefault(key, {})[record.benchmark] = record
    names = dict.fromkeys(name for own in found.values() for name in own)
    means = {key: _means(own) for key, own in found.items()}
    ranked = [key for key, own in means.items() if set(own) == set(names) and key[1] != "auto"]
    ranks = dict(zip(ranked, average_ranks([means[key] for key in ranked]), strict=True))
    return [
        BenchmarkRow(
            *key,
            {name: pooled_success(record) for name, record in own.items()},
            means[key],
            fmean(means[key].values()) if set(own) == set(names) else None,
            ranks.get(key),
        )
        for key, own in found.items()
    ]


def average_ranks(schemes: Sequence[Mapping[str, float]]) -> list[float]:
    """Mean ranks over the columns that all schemes have: 1 is best, ties share their mean."""
    if not schemes:
        return []
    columns = set.intersection(*(set(rates) for rates in schemes))
    return [fmean(_rank(name, own, schemes) for name in columns) for own in schemes]


def _rank(name: str, own: Mapping[str, float], schemes: Sequence[Mapping[str, float]]) -> float:
    better = sum(other[name] > own[name] for other in schemes)
    equal = sum(other[name] == own[name] for other in schemes)
    return better + (equal + 1) / 2


def pooled_success(record: BenchmarkEvaluation) -> SuccessRate:
    """Success over all episodes of a benchmark together."""
    rates = [task.success for part in record.parts for task in part.tasks]
    return success_rate(sum(r.successes for r in rates), sum(r.episodes for r in rates))


def _means(records: Mapping[str, BenchmarkEvaluation]) -> dict[str, float]:
    found = {name: record.mean_success for name, record in records.items()}
    return {name: mean for name, mean in found.items() if mean is not None}
