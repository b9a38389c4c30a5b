"""What networks read of a state: normalized, within bounds, in float32."""

from __future__ import annotations

from torch import Tensor, nn

from oatkit.nn.float32_linear import linear_in_float32

STATE_LIMIT = 3.0
"""Largest normalized state that is read; those of the training data are within 1. A dimension that
hardly moved in training is divided by hardly anything: a nudge would be read as hundreds, and drown
all others."""


def embed_state(layer: nn.Linear, state: Tensor) -> Tensor:
    """Slots (..., width) of normalized states (..., dim)."""
    bounded = state.clamp(-STATE_LIMIT, STATE_LIMIT)
    return linear_in_float32(bounded, layer.weight, layer.bias)
