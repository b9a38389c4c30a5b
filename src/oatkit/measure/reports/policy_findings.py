"""What the measurement of a policy says, in words."""

from __future__ import annotations

from oatkit.measure.baselines import BASELINES
from oatkit.types import PolicyMeasurement, budget_name

FAR_ABOVE = 1.5
"""Held-out loss over training loss from which a policy is said to know its episodes by heart."""


def policy_cautions(measured: PolicyMeasurement) -> list[str]:
    """What to know before a policy acts, one sentence each; nothing where all is well."""
    return [*_not_better(measured), *_by_heart(measured)]


def _not_better(measured: PolicyMeasurement) -> list[str]:
    errors = [(b.mse, b.budget) for b in measured.budgets if b.mse is not None]
    if not errors or not measured.baselines:
        return []
    mse, budget = min(errors, key=lambda found: found[0])
    better = [b for b in measured.baselines if b.mse <= mse]
    if not better:
        return []
    named = " and ".join(f"{BASELINES[b.name]} ({b.mse:.2e})" for b in better)
    sampled = "; sampling adds to its error, so measure it with --temperature 0 too"
    return [
        f"the policy's best error ({mse:.2e}, budget {budget_name(budget)}) does not beat {named}: "
        "it needs more steps, more episodes or more to see"
        + (sampled if not measured.sampling.is_greedy else "")
    ]


def _by_heart(measured: PolicyMeasurement) -> list[str]:
    known = measured.train_loss
    if known is None or measured.split != "val" or measured.loss < FAR_ABOVE * known:
        return []
    return [
        f"the held-out loss ({measured.loss:.3f}) is far above that of the training episodes "
        f"({known:.3f}): the policy knows them by heart; fewer steps or more episodes help"
    ]
