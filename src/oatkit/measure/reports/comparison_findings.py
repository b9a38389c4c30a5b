"""What a comparison says, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oatkit.measure.reports.probe_findings import policy_sentence, probe_cautions
from oatkit.measure.reports.report_words import count_tokens
from oatkit.types import BudgetMeasurement, KindComparison, TokenizerComparison

TARGETS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Errors whose cheapest way is looked for, as shares of the variance."""
SMALL = 0.01
"""The smallest of them that the first sentence speaks of."""
LATE_FALL = 0.1
"""Share by which a loss falls between the last two fifths of the steps if more steps would help."""
LOW_PERPLEXITY = 0.02
"""Share of the vocabulary below which a slot is said to use little of it."""
FEW_CHUNKS = 500
"""Number of chunks below which numbers are said to be noisy."""


@dataclass(frozen=True)
class CheapestWay:
    """The kinds and budgets that reach an error with the fewest tokens, and with the fewest bits.

    Attributes:
        mse: The error that is to be reached, raw units.
        share: The same error as a share of the variance.
        by_tokens: Kind and budget with the fewest tokens; None where no kind reaches the error.
        by_bits: Kind and budget with the fewest bits; None where no kind reaches the error.
    """

    mse: float
    share: float
    by_tokens: tuple[str, BudgetMeasurement] | None
    by_bits: tuple[str, BudgetMeasurement] | None


def trained(kind: KindComparison) -> list[BudgetMeasurement]:
    """The budgets with direct supervision."""
    return [b for b in kind.measurement.budgets if b.is_trained]


def cheapest_ways(comparison: TokenizerComparison) -> list[CheapestWay]:
    """The cheapest trained budgets that reach each error of `TARGETS`."""
    points = [(k.measurement.kind, b) for k in comparison.kinds for b in trained(k)]
    found = []
    for share in TARGETS:
        mse = share * comparison.variance
        good = [point for point in points if point[1].mse <= mse]
        by_tokens = min(good, key=lambda p: (p[1].tokens, p[1].bits), default=None)
        by_bits = min(good, key=lambda p: p[1].bits, default=None)
        found.append(CheapestWay(mse, share, by_tokens, by_bits))
    return found


def sentences(comparison: TokenizerComparison) -> list[str]:
    """What was found, one sentence each, the most telling first."""
    by_kind = {k.measurement.kind: k for k in comparison.kinds}
    said = [
        *_headline(comparison),
        *(_errors(comparison, kind) for kind in comparison.kinds),
    ]
    if "oat" in by_kind and "oat-pow2" in by_kind:
        said.append(_power_of_two(by_kind["oat"], by_kind["oat-pow2"]))
    return said


def _headline(comparison: TokenizerComparison) -> list[str]:
    """What to give a policy where that is known; otherwise the first sentence says that it is not
    known, because the best reconstruction can be what a policy learns worst."""
    cheapest = cheapest_sentence(comparison)
    for_policy = policy_sentence(comparison)
    if for_policy is not None:
        return [for_policy, cheapest]
    return [
        f"{cheapest.removesuffix('.')}; that is reconstruction alone, and not what a policy learns "
        "best, which --policy-minutes finds out."
    ]


def cheapest_sentence(comparison: TokenizerComparison) -> str:
    """Which kind needs the fewest tokens for a small error, or for the smallest that is reached."""
    ways = [way for way in cheapest_ways(comparison) if way.share >= SMALL]
    named = [(way.share, *way.by_tokens) for way in ways if way.by_tokens is not None]
    if not named:
        return (
            f"No kind leaves less than {TARGETS[0]:.0%} of the variance of these actions: "
            "train for longer, or give more tokens."
        )
    share, kind, b = named[-1]
    return (
        f"{kind} needs the fewest tokens to leave at most {share:.0%} of the variance of the "
        f"actions: {count_tokens(b.tokens)}, {b.bits:.0f} bits a chunk."
    )


def share_left(comparison: TokenizerComparison, mse: float) -> str:
    """An error as a share of the variance, in percent without the sign."""
    percent = 100 * mse / max(comparison.variance, 1e-30)
    return f"{percent:.2g}" if percent < 99.5 else f"{percent:.0f}"


def _errors(comparison: TokenizerComparison, kind: KindComparison) -> str:
    rows = trained(kind)
    shares = " / ".join(share_left(comparison, b.mse) for b in rows)
    tokens = " / ".join(f"{b.tokens:.3g}" for b in rows)
    said = f"{kind.measurement.kind} leaves {shares} % of the variance at {tokens} tokens"
    below = [f"{b.tokens:.3g}" for b in rows if b.mse < b.gaussian_mse]
    if len(below) == len(rows):
        return f"{said}, always below the Gaussian reference."
    if below:
        return f"{said}, below the Gaussian reference at {', '.join(below)}."
    nearest = min(b.mse / max(b.gaussian_mse, 1e-30) for b in rows)
    times = f"{nearest:.3g} times it" if nearest < 1000 else "more than 1000 times it"
    return f"{said}, above the Gaussian reference ({times}{' at best' * (len(rows) > 1)})."


def _power_of_two(oat: KindComparison, pow2: KindComparison) -> str:
    errors = {b.budget: b.mse for b in trained(oat)}
    ratios = [b.mse / errors[b.budget] - 1 for b in trained(pow2) if b.budget in errors]
    return (
        f"Against oat, the error of oat-pow2 differs by {min(ratios):+.1%} to {max(ratios):+.1%} "
        "over the trained budgets."
    )


def cautions(comparison: TokenizerComparison) -> list[str]:
    """What to know before believing the numbers."""
    said = []
    count = min(k.measurement.num_chunks for k in comparison.kinds)
    if count < FEW_CHUNKS:
        said.append(f"Only {count} held-out chunks were measured: the numbers are noisy.")
    said += [*probe_cautions(comparison), *worse_than_analytic(comparison)]
    for kind in comparison.kinds:
        name, m = kind.measurement.kind, kind.measurement
        fall = late_fall(kind)
        if fall > LATE_FALL:
            said.append(
                f"{name} looks undertrained: its loss still fell by {fall:.0%} between the last "
                "two fifths of the steps."
            )
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


def worse_than_analytic(comparison: TokenizerComparison) -> list[str]:
    """A sentence that names the trained kinds that `klt` beats with no more bits, if there are."""
    analytic = [b for k in comparison.kinds if k.measurement.kind == "klt" for b in trained(k)]
    beaten = []
    for kind in (k for k in comparison.kinds if k.losses):
        end = trained(kind)[-1]
        errors = [b.mse for b in analytic if b.bits <= end.bits * 1.001]
        if errors and min(errors) < end.mse:
            beaten.append(f"{kind.measurement.kind} ({end.mse:.3g} against {min(errors):.3g})")
    if not beaten:
        return []
    return [
        "Undertrained, it seems, because klt, which is computed without training, leaves "
        f"less with no more bits: {', '.join(beaten)}."
    ]


def late_fall(kind: KindComparison) -> float:
    """Share by which the loss fell from the last but one to the last fifth of the steps."""
    if not kind.losses:
        return 0.0
    end = kind.losses[-1].step
    before = [p.loss for p in kind.losses if 0.6 * end < p.step <= 0.8 * end]
    last = [p.loss for p in kind.losses if p.step > 0.8 * end]
    return 1 - float(np.mean(last) / np.mean(before)) if before else 0.0
