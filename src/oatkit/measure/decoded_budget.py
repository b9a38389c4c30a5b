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

    Shape letters: B chunk, T step, A action dimension, K token slot, D number of a flat chunk.

    Attributes:
        budget: Number of leading tokens that were kept; 0 decodes masks only.
        tokens: The kept tokens of each chunk.
        wanted_BTA: The true chunks, raw units.
        decoded_BTA: The chunks that the tokens decode to, raw units.
        is_pad_BT: Which steps lie past the end of an episode.
        vocab_size: Number of different token ids.
        scale_A: Size of one normalized unit of each action dimension, raw units.
        eigenvalues_D: Eigenvalues of the covariance of the true chunks.
        entropy_bits_K: Entropy of the ids in each slot, times the share of chunks that reach it.
    """

    budget: int
    tokens: Tokens
    wanted_BTA: Tensor
    decoded_BTA: Tensor
    is_pad_BT: NDArray[np.bool_]
    vocab_size: int
    scale_A: NDArray[np.float64]
    eigenvalues_D: NDArray[np.float64]
    entropy_bits_K: tuple[float, ...]

    @cached_property
    def error_BTA(self) -> NDArray[np.float64]:
        """Decoded less true, raw units."""
        error_BTA: NDArray[np.float64] = (self.decoded_BTA - self.wanted_BTA).double().numpy()
        return error_BTA
