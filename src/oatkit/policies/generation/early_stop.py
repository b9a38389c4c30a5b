"""When `budget="auto"` stops: the chunk no longer moves, or the tokens are near certain.

The thresholds are found on held-out data: the fewest calls that move the chunk, on average, by no
more than a share of what the tokenizer itself loses. The error of the whole policy would be no
measure: its draws differ so much from the one demonstrated action that a coarse chunk looks as good
as a fine one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MARGIN = 0.25
"""Mean squared distance to the chunk of all tokens, as a share of the tokenizer's own error."""
NUM_CANDIDATES = 32
NEVER = -1.0


@dataclass(frozen=True)
class AutoThresholds:
    """After a stage, a row stops whose change or entropy is at most its threshold; -1 for never."""

    change: float
    """Root mean square difference to the chunk of the stage before, normalized units."""
    entropy_bits: float
    """Mean over the tokens of the stage."""

    def stops(self, change_B: Tensor, entropy_B: Tensor) -> Tensor:
        """(B,) bool; the change after the first stage is infinite."""
        return (change_B <= self.change) | (entropy_B <= self.entropy_bits)


def chunk_change(now_BTA: Tensor, before_BTA: Tensor | None, scale_A: Tensor) -> Tensor:
    """(B,): root mean square difference of raw chunks in normalized units."""
    if before_BTA is None:
        return torch.full((len(now_BTA),), torch.inf, device=now_BTA.device)
    return ((now_BTA - before_BTA) / scale_A).square().mean(dim=(1, 2)).sqrt()


def calibrate(
    change_NS: NDArray[np.float64],
    entropy_NS: NDArray[np.float64],
    excess_NS: NDArray[np.float64],
    allowed: float,
) -> AutoThresholds:
    """The thresholds with the fewest calls whose mean excess is at most `allowed`.

    Args:
        change_NS: Change of each held-out chunk after each stage; infinite after the first.
        entropy_NS: Mean entropy of the stage's tokens.
        excess_NS: Squared distance of the chunk after the stage to that of all tokens.
        allowed: See `MARGIN`.
    """
    num_rows, num_stages = excess_NS.shape
    finite = change_NS[np.isfinite(change_NS)]
    quantiles = np.linspace(0, 1, NUM_CANDIDATES)
    changes = [NEVER, *(np.quantile(finite, quantiles) if len(finite) else [])]
    entropies = [NEVER, *np.quantile(entropy_NS, quantiles)]
    best, fewest = AutoThresholds(NEVER, NEVER), float(num_stages)
    for change in changes:
        for entropy in entropies:
            is_stop_NS = (change_NS <= change) | (entropy_NS <= entropy)
            is_stop_NS[:, -1] = True
            stage_N = is_stop_NS.argmax(axis=1)
            calls = float(stage_N.mean()) + 1
            if calls < fewest and excess_NS[np.arange(num_rows), stage_N].mean() <= allowed:
                best, fewest = AutoThresholds(float(change), float(entropy)), calls
    return best
