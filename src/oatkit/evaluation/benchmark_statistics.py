"""Results on several benchmarks joined as the paper does: means, balanced averages and ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    success = {
        key: {name: pooled_success(record) for name, record in own.items()}
        for key, own in found.items()
    }
    ranked = {key for key, own in found.items() if all(r.is_paper_row for r in own.values())}
    return ranked_rows({key: _means(own) for key, own in found.items()}, ranked, success)


def ranked_rows(
    means: Mapping[tuple[str, Budget], Mapping[str, float]],
    papers: Collection[tuple[str, Budget]],
    success: Mapping[tuple[str, Budget], Mapping[str, SuccessRate]] | None = None,
) -> list[BenchmarkRow]:
    """Rows with their averages and mean ranks.

    Args:
        means: Policy and budget to benchmark to mean success.
        papers: Policies and budgets that are rows of the paper's table; only these are ranked.
        success: Policy and budget to benchmark to success with its interval; none by default.
    """
    names = {name for own in means.values() for name in own}
    whole = {key: own for key, own in means.items() if set(own) == names}
    ranked = {key: own for key, own in whole.items() if key in papers}
    ranks = dict(zip(ranked, average_ranks(list(ranked.values())), strict=True))
    return [
        BenchmarkRow(
            *key,
            (success or {}).get(key, {}),
            own,
            fmean(own.values()) if key in whole else None,
            ranks.get(key),
        )
        for key, own in means.items()
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
