"""Records made by hand, for the tests of what is written about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from oatkit.evaluation.success_statistics import compare_paired, summarize
from oatkit.types import (
    Allocation,
    Baseline,
    Budget,
    BudgetMeasurement,
    EpisodeResult,
    KindComparison,
    LossPoint,
    PolicyBudget,
    PolicyEvaluation,
    PolicyMeasurement,
    Properties,
    Property,
    Reconstruction,
    Robustness,
    SlotMeasurement,
    TokenizerComparison,
    TokenizerMeasurement,
    budget_name,
)

SETTINGS = {"env": "plane", "execute": 8, "horizon": 16, "seed": 0}


def kind(name: str, errors: dict[int, float], *, losses: tuple[float, ...] = ()) -> KindComparison:
    """A kind with these raw errors at its trained budgets, of ten bits a token."""
    budgets = tuple(
        BudgetMeasurement(
            *(tokens, True, tokens, 10.0 * tokens, 5.0 * tokens, mse, mse, mse, 0.05),
            *((mse, mse), (mse, mse), 1.0),
        )
        for tokens, mse in errors.items()
    )
    yes = Property(True, "it is")
    return KindComparison(
        measurement=TokenizerMeasurement(
            *("p", name, "d", "val", 1000, 8, 2, 1024, max(errors), 7, budgets),
            *((SlotMeasurement(0.5, 300.0),), Robustness(1, 0, 1, 0, 0.1), 1.0, 1.0),
        ),
        properties=Properties(yes, yes, yes, yes),
        allocation=None,
        reconstructions=(),
        seconds=1.0,
        losses=tuple(LossPoint(10 * i, loss) for i, loss in enumerate(losses, 1)),
    )


def ordered_kind(name: str, errors: Sequence[float]) -> KindComparison:
    """A kind with these errors at 0, 1, ... tokens, all trained, and sample chunks of zeros."""
    made = kind(name, {tokens: error for tokens, error in enumerate(errors) if tokens})
    budgets = tuple(range(1, len(errors)))
    gains = tuple(before - after for before, after in pairwise(errors))
    survival = tuple((len(gains) - i) / len(gains) for i in range(len(gains)))
    expected = sum(errors[1:]) / len(gains)
    zeros = ((0.0, 0.0),) * 3
    return replace(
        made,
        allocation=Allocation(budgets, tuple(errors), gains, survival, expected, expected),
        reconstructions=tuple(Reconstruction(0, budget, zeros) for budget in budgets),
    )


def probed(made: KindComparison, errors: dict[int, float | None]) -> KindComparison:
    """The kind with a policy of these raw errors at its budgets, and an overlap of a half."""
    m = made.measurement
    budgets = tuple(replace(b, more={"overlap": 0.5}) for b in m.budgets)
    policy = PolicyMeasurement(
        *("p", m.kind, "d", "val", 10, 5, 1.0, ()),
        tuple(PolicyBudget(k, k, k, mse, mse, 0.01, ()) for k, mse in errors.items()),
        *(None, 0.0, ()),
        baselines=(Baseline("hold", 0.5, 0.5), Baseline("ridge", 0.2, 0.2)),
    )
    return replace(made, measurement=replace(m, budgets=budgets), policy=policy)


def comparison(*kinds: KindComparison, **changes: Any) -> TokenizerComparison:
    """Kinds on a dataset of two dimensions, x and y, with a variance of 1 and one sample chunk."""
    sample = ((0.0, 0.0), (0.1, 1.0), (0.2, 2.0))
    made = TokenizerComparison("d", 5, ("x", "y"), (1.0, 1.0), 1.0, (sample,), {}, {}, kinds)
    return replace(made, **changes)


def episodes(budget: Budget, solved: Sequence[bool], task: str) -> list[EpisodeResult]:
    """An episode for each entry of `solved`."""
    tokens = float(budget) if isinstance(budget, int) else 3.0
    return [
        EpisodeResult(
            task=task,
            budget=budget,
            episode=number,
            seed=2 * number + 1,
            is_success=is_success,
            score=None,
            steps=50,
            queries=4,
            calls=2.0,
            tokens=tokens,
            latency_ms=3.0,
            clipped=0.1,
            repeats=0,
            error=None,
        )
        for number, is_success in enumerate(solved)
    ]


def evaluation(
    solved: dict[Budget, list[bool]], tasks: Sequence[str] = ("a",), **settings: Any
) -> PolicyEvaluation:
    """An evaluation of every budget on the same episodes of every task."""
    found = {k: [e for t in tasks for e in episodes(k, own, t)] for k, own in solved.items()}
    largest = max(k for k in found if isinstance(k, int))
    pairs = [
        compare_paired(budget_name(k), str(largest), own, found[largest])
        for k, own in found.items()
        if k != largest
    ]
    return PolicyEvaluation(
        policy="out/policy",
        kind="oat-pow2",
        settings={**SETTINGS, **settings},
        versions={"torch": "1"},
        episodes=tuple(e for own in found.values() for e in own),
        budgets=tuple(summarize(k, own, latency_ms=2.5) for k, own in found.items()),
        comparisons=tuple(pair for pair in pairs if pair is not None),
    )


def flow_evaluation(solved: list[bool], tasks: Sequence[str] = ("a",)) -> PolicyEvaluation:
    """An evaluation of a policy whose flow expert acts."""
    return evaluation({8: solved}, tasks, head="flow")
