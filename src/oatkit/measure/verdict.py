"""What a comparison says, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oatkit.types import BudgetMeasurement, KindComparison, TokenizerComparison

REMAINDERS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Errors worth asking for, as shares of the variance."""
LATE_FALL = 0.1
"""A loss that falls by this share between the last two fifths of the steps is not done."""
LOW_PERPLEXITY = 0.02
"""Share of the vocabulary below which a slot's ids are nearly unused."""
FEW_CHUNKS = 500


@dataclass(frozen=True)
class Reach:
    """The cheapest way to an error, in tokens and in bits; None where no kind gets there."""

    mse: float
    share: float
    by_tokens: tuple[str, BudgetMeasurement] | None
    by_bits: tuple[str, BudgetMeasurement] | None


def trained(kind: KindComparison) -> list[BudgetMeasurement]:
    """The budgets with direct supervision."""
    return [b for b in kind.measurement.budgets if b.is_trained]


def reaches(comparison: TokenizerComparison) -> list[Reach]:
    """For each error of `REMAINDERS` the kind and trained budget that reach it most cheaply."""
    points = [(k.measurement.kind, b) for k in comparison.kinds for b in trained(k)]
    found = []
    for share in REMAINDERS:
        mse = share * comparison.variance
        good = [point for point in points if point[1].mse <= mse]
        by_tokens = min(good, key=lambda p: (p[1].tokens, p[1].bits), default=None)
        by_bits = min(good, key=lambda p: p[1].bits, default=None)
        found.append(Reach(mse, share, by_tokens, by_bits))
    return found


def sentences(comparison: TokenizerComparison) -> list[str]:
    """What was found, one sentence each."""
    by_kind = {k.measurement.kind: k for k in comparison.kinds}
    said = []
    for kind in comparison.kinds:
        rows = trained(kind)
        if len(rows) > 1:
            path = ", ".join(f"{b.mse:.2g} at {b.budget}" for b in rows)
            said.append(f"{kind.measurement.kind} leaves a mean squared error of {path} tokens.")
    said += [_against_reference(kind) for kind in comparison.kinds]
    if "oat" in by_kind and "oat-pow2" in by_kind:
        said.append(_power_of_two(by_kind["oat"], by_kind["oat-pow2"]))
    return said


def _against_reference(kind: KindComparison) -> str:
    rows, name = trained(kind), kind.measurement.kind
    below = [b.budget for b in rows if b.mse < b.gaussian_mse]
    if len(rows) == 1:
        b = rows[0]
        where = "below" if below else "above"
        times = b.mse / max(b.gaussian_mse, 1e-30)
        much = f"{times:.2g} times it" if times < 1000 else "far more, as the bits would allow"
        return (
            f"{name} leaves {b.mse:.2g} with {b.tokens:.3g} tokens ({b.bits:.0f} bits), {where} "
            f"the Gaussian reference at that rate ({much})."
        )
    if len(below) == len(rows):
        return f"{name} is below the Gaussian reference at every trained budget."
    if below:
        listed = ", ".join(map(str, below))
        return f"{name} is below the Gaussian reference at {listed} tokens, above it elsewhere."
    return f"{name} is above the Gaussian reference at every trained budget."


def _power_of_two(oat: KindComparison, pow2: KindComparison) -> str:
    errors = {b.budget: b.mse for b in trained(oat)}
    ratios = [b.mse / errors[b.budget] - 1 for b in trained(pow2) if b.budget in errors]
    return (
        f"Against oat, the error of oat-pow2 differs by {min(ratios):+.0%} to {max(ratios):+.0%} "
        "over the trained budgets."
    )


def cautions(comparison: TokenizerComparison) -> list[str]:
    """What to know before believing the numbers."""
    said = []
    count = min(k.measurement.num_chunks for k in comparison.kinds)
    if count < FEW_CHUNKS:
        said.append(f"Only {count} held-out chunks were measured: the numbers are noisy.")
    analytic = next((k for k in comparison.kinds if k.measurement.kind == "klt"), None)
    for kind in comparison.kinds:
        said += _looks_undertrained(kind, analytic)
        name, m = kind.measurement.kind, kind.measurement
        if kind.properties.ordered.holds is False and len(m.budgets) > 1:
            said.append(f"{name} is meant to be ordered, but {kind.properties.ordered.evidence}.")
        low = sum(slot.perplexity < LOW_PERPLEXITY * m.vocab_size for slot in m.slots)
        if kind.losses and low > len(m.slots) / 2:
            said.append(
                f"{name} uses little of its vocabulary: in {low} of {len(m.slots)} slots the ids "
                f"are worth fewer than {LOW_PERPLEXITY:.0%} of {m.vocab_size}."
            )
    if any(k.measurement.kind == "fast" for k in comparison.kinds):
        said.append(
            "fast is fitted on this data; the paper compares with the universal FAST tokenizer."
        )
    return said


def _looks_undertrained(kind: KindComparison, analytic: KindComparison | None) -> list[str]:
    if not kind.losses:
        return []
    said, name = [], kind.measurement.kind
    before, last = _late_losses(kind)
    if last < (1 - LATE_FALL) * before:
        said.append(
            f"{name} looks undertrained: its loss still fell by {1 - last / before:.0%} between "
            "the last two fifths of the steps."
        )
    if analytic is not None:
        end = trained(kind)[-1]
        same = [b for b in analytic.measurement.budgets if 0 < b.bits <= end.bits * 1.001]
        if same and same[-1].mse < end.mse:
            said.append(
                f"{name} looks undertrained: klt, which is computed without training, leaves "
                f"{same[-1].mse:.2g} with no more bits, {name} {end.mse:.2g}."
            )
    return said


def _late_losses(kind: KindComparison) -> tuple[float, float]:
    """Mean loss in the last but one and in the last fifth of the steps."""
    end = kind.losses[-1].step
    before = [p.loss for p in kind.losses if 0.6 * end < p.step <= 0.8 * end]
    last = [p.loss for p in kind.losses if p.step > 0.8 * end]
    return (float(np.mean(before)) if before else 0.0), float(np.mean(last))
