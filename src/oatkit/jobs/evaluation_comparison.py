"""Paired comparisons of evaluations: of the budgets of one, and of several policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oatkit.evaluation.success_statistics import compare_paired
from oatkit.measure.reports.report_words import policy_names, result_name
from oatkit.types import (
    Budget,
    EpisodeResult,
    PairedComparison,
    PolicyEvaluation,
    budget_name,
    budget_order,
)


def with_comparisons(
    record: PolicyEvaluation, others: Sequence[PolicyEvaluation] = ()
) -> PolicyEvaluation:
    """The record with every budget compared with the largest, and with other policies.

    Args:
        record: An evaluation.
        others: Evaluations of other policies on some of the same episodes. Each, at its largest
            budget, is compared with `record` at its own.
    """
    groups, largest = _by_budget(record), _largest(record)
    pairs: list[PairedComparison | None] = [
        compare_paired(budget_name(budget), budget_name(largest), episodes, groups[largest])
        for budget, episodes in groups.items()
        if budget != largest
    ]
    own_name, *names = policy_names((record, *others))
    for other, name in zip(others, names, strict=True):
        other_largest = _largest(other)
        pair = compare_paired(
            f"{name} at {result_name(other, other_largest)}",
            f"{own_name} at {result_name(record, largest)}",
            _by_budget(other)[other_largest],
            groups[largest],
        )
        if pair is None:
            raise ValueError(f"the record of {other.policy} has no episode of the same seed")
        pairs.append(pair)
    return replace(
        record,
        comparisons=tuple(pair for pair in pairs if pair is not None),
        others=tuple(
            replace(other, episodes=(), comparisons=(), others=(), videos=()) for other in others
        ),
    )


def _by_budget(record: PolicyEvaluation) -> dict[Budget, list[EpisodeResult]]:
    groups: dict[Budget, list[EpisodeResult]] = {}
    for episode in record.episodes:
        groups.setdefault(episode.budget, []).append(episode)
    return groups


def _largest(record: PolicyEvaluation) -> Budget:
    """The largest number of tokens that was asked for; "auto" where nothing else was."""
    asked = {e.budget for e in record.episodes if e.budget != "auto"}
    return max(asked, key=budget_order, default="auto")
