"""Decoded chunks made by hand."""

from __future__ import annotations

import numpy as np
import torch

from oatkit.measure.decoded_budget import DecodedBudget
from oatkit.types import Tokens


def decoded(wanted: torch.Tensor, found: torch.Tensor) -> DecodedBudget:
    """Two tokens of 16 ids, one normalized unit being 2 raw ones."""
    count, _, action_dim = wanted.shape
    return DecodedBudget(
        budget=2,
        tokens=Tokens.full(torch.zeros(count, 2, dtype=torch.int64)),
        wanted=wanted,
        decoded=found,
        is_pad=np.zeros(wanted.shape[:2], bool),
        vocab_size=16,
        scale=np.full(action_dim, 2.0),
        eigenvalues=np.ones(wanted[0].numel()),
        entropy_bits=(3.0, 1.0),
    )
