"""What a metric of one budget is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oatkit.types import Tokens


@dataclass(frozen=True)
class DecodedBudget:
    """Held-out chunks beside what their first tokens decode to.

    Shape letters: B chunk, T step, A action dimension.

    Attributes:
        budget: Number of leading tokens that were kept; 0 decodes masks only.
        tokens: The kept tokens of each chunk.
        wanted: The true chunks (B, T, A), raw units.
        decoded: The chunks (B, T, A) that the tokens decode to, raw units.
        is_pad: Which steps (B, T) lie past the end of an episode.
        vocab_size: Number of different token ids.
        scale: Size of one normalized unit of each action dimension (A,), raw units.
        eigenvalues: Eigenvalues (T * A,) of the covariance of the true chunks.
        entropy_bits: Entropy of the ids in each slot, times the share of chunks that reach it.
    """

    budget: int
    tokens: Tokens
    wanted: Tensor
    decoded: Tensor
    is_pad: NDArray[np.bool_]
    vocab_size: int
    scale: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    entropy_bits: tuple[float, ...]

    @cached_property
    def error(self) -> NDArray[np.float64]:
        """Decoded less true (B, T, A), raw units."""
        error_BTA: NDArray[np.float64] = (self.decoded - self.wanted).double().numpy()
        return error_BTA
