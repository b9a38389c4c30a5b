"""When `budget="auto"` stops: the chunk no longer moves, or the tokens are near certain.

The thresholds are found on held-out data: the fewest calls that move the chunk, on average, by no
more than a share of what the tokenizer itself loses. The error of the whole policy would be no
measure: its samples differ so much from the one demonstrated action that a coarse chunk looks as
good as a fine one.

Shape letters: B batch, N rows that are generated, S stage, K token slot, G slot of a stage, T step
in the chunk, A action dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.tokenizers import ActionTokenizer

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
        """Whether each row stops, (B,) bool; the change after the first stage is infinite."""
        return (change_B <= self.change) | (entropy_B <= self.entropy_bits)


class EarlyStop:
    """Decodes after every stage of one generation, and says which rows have stopped.

    Args:
        tokenizer: Decodes the ids so far.
        thresholds: Thresholds at which a row stops.

    Attributes:
        chunk_NTA: (N, T, A) chunk of each row, as it was when the row stopped; None before the
            first stage.
    """

    def __init__(self, tokenizer: ActionTokenizer, thresholds: AutoThresholds) -> None:
        self._tokenizer = tokenizer
        self._thresholds = thresholds
        self._before_NTA: Tensor | None = None
        self._is_done_N: Tensor | None = None
        self.chunk_NTA: Tensor | None = None

    def after_stage(self, ids_NK: Tensor, entropy_NG: Tensor, budget: int) -> Tensor:
        """Which rows have stopped, (N,) bool.

        Args:
            ids_NK: All ids so far.
            entropy_NG: Entropies of the ids of this stage, in bits.
            budget: Number of ids to decode.
        """
        now_NTA = self._tokenizer.decode(ids_NK, budget=budget)
        scale_A = now_NTA.new_tensor(self._tokenizer.normalizer.scale)  # MPS has no float64
        change_N = chunk_change(now_NTA, self._before_NTA, scale_A)
        is_done_N = self._thresholds.stops(change_N, entropy_NG.mean(dim=1))
        if self.chunk_NTA is None or self._is_done_N is None:
            self.chunk_NTA, self._is_done_N = now_NTA, is_done_N
        else:
            self.chunk_NTA = torch.where(self._is_done_N[:, None, None], self.chunk_NTA, now_NTA)
            self._is_done_N = self._is_done_N | is_done_N
        self._before_NTA = now_NTA
        return self._is_done_N


def chunk_change(now_BTA: Tensor, before_BTA: Tensor | None, scale_A: Tensor) -> Tensor:
    """Root mean square difference of raw chunks in normalized units, (B,)."""
    if before_BTA is None:
        return torch.full((len(now_BTA),), torch.inf, device=now_BTA.device)
    return ((now_BTA - before_BTA) / scale_A).square().mean(dim=(1, 2)).sqrt()


def find_thresholds(
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
        allowed: Largest mean excess; see `MARGIN`.
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
