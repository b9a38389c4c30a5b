"""When `budget="auto"` stops: the tokens so far are so certain that more hardly better the chunk.

Nothing is decoded to find out. On held-out data a table says, for each number of tokens, how much
worse the chunk is than that of all tokens when their mean entropy is so large:

    mean entropy so far    low ............ high
    after 1 token          0.01  0.02  0.05  0.11     expected excess
    after 2 tokens         0.00  0.01  0.03  0.06

The excess is a squared distance or, of corrected chunks, an error (`threshold_calibration.py`). A
row stops where it is not worth the milliseconds that going on takes here. What is stored is the
entropy up to which that is so.

Shape letters: N held-out chunk, or row that is generated, S stage, G token slot of a stage,
Q entropy at which the table has an entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MARGIN = 0.25
"""Mean squared distance to the chunk of all tokens, as a share of the tokenizer's own error. The
error of the whole policy would be no measure: its samples differ so much from the one demonstrated
action that a coarse chunk looks as good as a fine one."""
ERROR_MARGIN = 0.02
"""How much more chunks may err that a network corrects by what it sees, as a share of their mean
absolute error with all tokens, which tells them apart: it is lowest where they solve most."""
NUM_BINS = 16
"""Number of entropies, by quantiles, at which the expected distance is looked up."""
ALWAYS_BITS = 64.0
"""A threshold that the entropy of no token exceeds."""
MIN_SAVING = 0.02
"""Share of the time of all tokens that must be saved; less is lost in the noise of a clock."""


@dataclass(frozen=True)
class AutoThresholds:
    """Where a row stops: after so many tokens, if their mean entropy is at most the threshold.

    Where nothing is listed no row stops before all of its tokens.

    Attributes:
        num_tokens: Numbers of tokens after which a row may stop, in growing order.
        entropy_bits: Threshold of each.
    """

    num_tokens: tuple[int, ...] = ()
    entropy_bits: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None) -> AutoThresholds | None:
        """What an artifact holds; None where it was not calibrated.

        Earlier thresholds were those of a rule that decoded after every stage, with entropies of
        the last stage alone: they say nothing about this rule.
        """
        if stored is None or "change" in stored:
            return None
        return cls(tuple(stored["num_tokens"]), tuple(stored["entropy_bits"]))

    def stops(self, entropies: Sequence[Tensor]) -> Tensor | None:
        """Which rows stop, (N,) bool; None where none may stop after so many tokens.

        Args:
            entropies: Entropies of the tokens of each stage so far, (N, G) each.
        """
        number = sum(entropy_NG.shape[1] for entropy_NG in entropies)
        if number not in self.num_tokens:
            return None
        limit = self.entropy_bits[self.num_tokens.index(number)]
        return torch.cat(tuple(entropies), dim=1).mean(dim=1) <= limit


def require_thresholds(thresholds: AutoThresholds | None) -> AutoThresholds:
    """The thresholds of a policy; an error says how to find them."""
    if thresholds is None:
        raise ValueError(
            "budget 'auto' has no thresholds: `oatkit policy calibrate POLICY --data DATA` finds "
            "them, as the end of `oatkit policy train` does"
        )
    return thresholds


@dataclass(frozen=True)
class StageCosts:
    """Milliseconds of a prediction, its decoding included.

    Attributes:
        stopped_ms: (S,) when it stops after each stage, having looked at the entropies.
        all_ms: All tokens, without looking.
    """

    stopped_ms: NDArray[np.float64]
    all_ms: float


def find_thresholds(
    num_tokens: tuple[int, ...],
    entropy_NS: NDArray[np.float64],
    excess_NS: NDArray[np.float64],
    costs: StageCosts,
    allowed: float,
) -> AutoThresholds:
    """The thresholds of the fastest generation whose mean excess is at most `allowed`.

    A row stops where the expected excess is at most a price times the milliseconds that it saves,
    or after some stage in any case; price and stage are those that are fastest on these chunks.
    None stops where that is no faster than all tokens.

    Args:
        num_tokens: Number of tokens after each stage.
        entropy_NS: Mean entropy of the tokens so far, of each held-out chunk after each stage.
        excess_NS: How much worse the chunk after the stage is than that of all tokens.
        costs: What stages take on this machine.
        allowed: Largest mean excess; see `MARGIN`.
    """
    entropy_SQ, expected_SQ = expected_excess(entropy_NS[:, :-1], excess_NS[:, :-1])
    saved_S1 = (costs.stopped_ms[-1] - costs.stopped_ms[:-1])[:, None]
    price_SQ = np.full_like(expected_SQ, np.inf)
    np.divide(expected_SQ, saved_S1, out=price_SQ, where=saved_S1 > 0)
    best, fastest = AutoThresholds(), ((1 - MIN_SAVING) * costs.all_ms, np.inf)
    for found in _candidates(num_tokens, entropy_SQ, price_SQ):
        stage_N = stop_stages(found, num_tokens, entropy_NS)
        cost = (float(costs.stopped_ms[stage_N].mean()), float(stage_N.mean()))
        excess = float(excess_NS[np.arange(len(stage_N)), stage_N].mean())
        if excess <= allowed and cost < fastest:
            best, fastest = found, cost
    return best


def _candidates(
    num_tokens: tuple[int, ...], entropy_SQ: NDArray[np.float64], price_SQ: NDArray[np.float64]
) -> Iterator[AutoThresholds]:
    """Thresholds by every price, with every stage as the last, and by stages alone."""
    for price in (-np.inf, *np.unique(price_SQ[np.isfinite(price_SQ)])):
        num_low_S = (price_SQ <= price).sum(axis=1)  # the table grows, so the first of each stage
        limits = {
            num_tokens[stage]: float(entropy_SQ[stage, number - 1])
            for stage, number in enumerate(num_low_S)
            if number
        }
        yield AutoThresholds(tuple(limits), tuple(limits.values()))
        for last in num_tokens[:-1]:
            earlier = {number: bits for number, bits in limits.items() if number < last}
            yield AutoThresholds((*earlier, last), (*earlier.values(), ALWAYS_BITS))


def expected_excess(
    entropy_NS: NDArray[np.float64], excess_NS: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The table: entropies (S, Q) and the mean excess (S, Q) of chunks up to each.

    The excess of a stage never falls with its entropy: where it does by chance, the larger one
    before it counts.
    """
    num_bins = min(NUM_BINS, len(entropy_NS))
    order_NS = entropy_NS.argsort(axis=0)
    entropies, means = (
        [
            [reduce(part) for part in np.array_split(column_N, num_bins)]
            for column_N in np.take_along_axis(values_NS, order_NS, axis=0).T
        ]
        for values_NS, reduce in ((entropy_NS, np.max), (excess_NS, np.mean))
    )
    shape = (entropy_NS.shape[1], num_bins)
    means_SQ = np.maximum.accumulate(np.reshape(means, shape), axis=1)
    return np.reshape(entropies, shape), means_SQ


def stop_stages(
    thresholds: AutoThresholds, num_tokens: tuple[int, ...], entropy_NS: NDArray[np.float64]
) -> NDArray[np.int64]:
    """(N,) index of the stage after which each chunk stops.

    Args:
        thresholds: Where chunks stop.
        num_tokens: Number of tokens after each stage.
        entropy_NS: Mean entropy of the tokens so far.
    """
    limits = dict(zip(thresholds.num_tokens, thresholds.entropy_bits, strict=True))
    is_stop_NS = entropy_NS <= [limits.get(number, -np.inf) for number in num_tokens]
    is_stop_NS[:, -1] = True
    return is_stop_NS.argmax(axis=1)
