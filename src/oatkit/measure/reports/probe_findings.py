"""What the policies of a comparison say, in words: which kind, and how many tokens."""

from __future__ import annotations

from dataclasses import dataclass

from oatkit.measure.baselines import BASELINES
from oatkit.measure.reports.report_words import count_tokens
from oatkit.types import Baseline, PolicyBudget, TokenizerComparison

AS_GOOD = 1.05
"""Error over the smallest one up to which fewer tokens are recommended instead."""


@dataclass(frozen=True)
class ProbedBudget:
    """What a policy made of the tokens of a kind at one budget.

    Attributes:
        kind: Kind of the tokenizer.
        found: Errors of the policy's own chunks.
        mse: The error, raw units; infinite where no chunk decodes.
        overlap: Share of the true tokens that the chunk one step later has too; None if unknown.
    """

    kind: str
    found: PolicyBudget
    mse: float
    overlap: float | None


def probed_budgets(comparison: TokenizerComparison) -> list[ProbedBudget]:
    """A row for every budget of every kind that a policy was trained on."""
    rows = []
    for kind in comparison.kinds:
        overlaps = {b.budget: b.more.get("overlap") for b in kind.measurement.budgets}
        for b in kind.policy.budgets if kind.policy else ():
            assert isinstance(b.budget, int)
            mse = float("inf") if b.mse is None else b.mse
            rows.append(ProbedBudget(kind.measurement.kind, b, mse, overlaps.get(b.budget)))
    return rows


def best_for_policy(comparison: TokenizerComparison) -> ProbedBudget | None:
    """The fewest tokens whose policy errs about as little as any; None where none was trained."""
    rows = [row for row in probed_budgets(comparison) if row.mse < float("inf")]
    if not rows:
        return None
    limit = AS_GOOD * min(row.mse for row in rows)
    return min((r for r in rows if r.mse <= limit), key=lambda r: (r.found.tokens, r.mse))


def probe_baselines(comparison: TokenizerComparison) -> tuple[Baseline, ...]:
    """What needs no network, on the same chunks for every kind; none where none was trained."""
    found = (kind.policy.baselines for kind in comparison.kinds if kind.policy is not None)
    return next(found, ())


def recommended(comparison: TokenizerComparison) -> ProbedBudget | None:
    """The best one, unless the mean chunk errs as little: then no policy has learned enough."""
    best = best_for_policy(comparison)
    means = [b.mse for b in probe_baselines(comparison) if b.name == "mean chunk"]
    return None if best is not None and means and best.mse >= means[0] else best


def policy_sentence(comparison: TokenizerComparison) -> str | None:
    """Which kind and budget to give a policy, or that no policy has learned enough to tell; None
    where none was trained."""
    best = best_for_policy(comparison)
    if best is None:
        return None
    if recommended(comparison) is None:
        mean = next(b.mse for b in probe_baselines(comparison) if b.name == "mean chunk")
        return (
            f"For a policy: not known yet, because after {comparison.policy_steps:,} steps no "
            f"small one errs less ({best.mse:.2e} on {best.kind}) than {BASELINES['mean chunk']} "
            f"({mean:.2e})."
        )
    least: dict[str, float] = {}
    for row in probed_budgets(comparison):
        least[row.kind] = min(row.mse, least.get(row.kind, row.mse))
    others = [
        f"{_share(comparison, mse)} on {kind}" if mse < float("inf") else f"nothing valid on {kind}"
        for kind, mse in sorted(least.items(), key=lambda item: item[1])
        if kind != best.kind
    ]
    against = f", against at best {', '.join(others)}" if others else ""
    return (
        f"For a policy: {best.kind} with {count_tokens(best.found.tokens)}, on which a small one "
        f"leaves {_share(comparison, best.mse)} of the variance of held-out chunks after "
        f"{comparison.policy_steps:,} steps{against}."
    )


def probe_cautions(comparison: TokenizerComparison) -> list[str]:
    """What to know before the policies are believed."""
    best = best_for_policy(comparison)
    if best is None:
        return []
    least = min(row.mse for row in probed_budgets(comparison))
    better = [b for b in probe_baselines(comparison) if b.mse <= least]
    if not better:
        return []
    named = " and ".join(f"{BASELINES[b.name]} ({b.mse:.2e})" for b in better)
    return [
        f"No policy of this probe (at best {least:.2e}) beats {named}: more --policy-minutes in "
        "another --out may order the kinds differently."
    ]


def _share(comparison: TokenizerComparison, mse: float) -> str:
    return f"{100 * mse / max(comparison.variance, 1e-30):.3g} %"
