"""What representations of actions cost, in words and as a table."""

from __future__ import annotations

from oatkit.measure.reports.report_words import count_tokens
from oatkit.types import BudgetMeasurement, RepresentationMeasurement, TokenizerComparison

SHARE = 0.01
"""Share of the variance that a representation may leave, at which tokens are counted."""
HEADINGS = ("kind", "actions", "tokens", "bits", "MSE", "left of the variance")


def representation_rows(comparison: TokenizerComparison) -> list[tuple[str, ...]]:
    """A row for the full length of each kind in each representation, under `HEADINGS`."""
    rows: list[tuple[str, ...]] = []
    for one in sorted(comparison.representations, key=lambda one: one.measurement.kind):
        last = one.measurement.budgets[-1]
        left = last.mse / max(comparison.variance, 1e-30)
        rows.append(
            (
                one.measurement.kind,
                one.actions,
                *(f"{last.tokens:.3g}", f"{last.bits:.0f}", f"{last.mse:.2e}", f"{left:.2%}"),
            )
        )
    return rows


def representation_sentences(comparison: TokenizerComparison) -> list[str]:
    """How many tokens each kind needs in each representation to leave `SHARE` of the variance."""
    kinds = sorted({one.measurement.kind for one in comparison.representations})
    found = []
    for kind in kinds:
        own = [one for one in comparison.representations if one.measurement.kind == kind]
        needed = {one.actions: _fewest(one, SHARE * comparison.variance) for one in own}
        reached = {words: b for words, b in needed.items() if b is not None}
        missed = [words for words, b in needed.items() if b is None]
        parts = [
            f"{count_tokens(b.tokens)} as {words}"
            for words, b in sorted(reached.items(), key=lambda item: item[1].tokens)
        ]
        parts += [f"not with {' or '.join(missed)}"] if missed else []
        found.append(f"{kind} leaves {SHARE:.0%} of the variance with {', '.join(parts)}.")
    return found


def _fewest(one: RepresentationMeasurement, mse: float) -> BudgetMeasurement | None:
    """The smallest budget with at most this error."""
    good = [b for b in one.measurement.budgets if b.mse <= mse]
    return min(good, key=lambda b: b.tokens, default=None)
