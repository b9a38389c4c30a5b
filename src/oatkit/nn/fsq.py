"""Finite scalar quantization: each number of a latent is rounded to one of a few levels.

Written out rather than taken from `vector-quantize-pytorch`, with which it agrees bit for bit
(a test compares them): importing that package takes two seconds, and this is faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

EPSILON = 1e-3
"""Margin that keeps the outermost levels reachable by tanh."""


class FiniteScalarQuantizer(nn.Module):
    """Maps latents of `len(levels)` numbers to ids in 0 .. prod(levels) - 1 and back.

    Ids and codes are a bijection: an id is the mixed-radix number whose digits are the levels,
    the first dimension counting fastest.

    Args:
        levels: Number of values that each number of the latent may take, each 2 or more.
    """

    half_range: Tensor
    offset: Tensor
    shift: Tensor
    half_width: Tensor
    basis: Tensor
    radix: Tensor

    def __init__(self, levels: Sequence[int]) -> None:
        super().__init__()
        if not levels or min(levels) < 2:
            raise ValueError(f"levels are {list(levels)}, expected one or more of at least 2")
        self.levels = tuple(levels)
        self.num_codes = math.prod(levels)
        radix = torch.tensor(self.levels)
        half_range = (radix - 1) * (1 + EPSILON) / 2
        offset = torch.where(radix % 2 == 0, 0.5, 0.0)
        basis = torch.tensor([math.prod(levels[:i]) for i in range(len(levels))])
        for name, values in {
            "half_range": half_range,
            "offset": offset,
            "shift": torch.atanh(offset / half_range),
            "half_width": radix // 2,
            "basis": basis,
            "radix": radix,
        }.items():
            self.register_buffer(name, values, persistent=False)

    def forward(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Quantize with straight-through gradients.

        Args:
            latents: (..., dims), any real numbers.

        Returns:
            codes (..., dims) in [-1, 1], and their ids (...).
        """
        bounded = torch.tanh(latents.float() + self.shift) * self.half_range - self.offset
        rounded = bounded + (bounded.round() - bounded).detach()
        return rounded / self.half_width, self._ids(rounded.detach())

    def codes(self, ids: Tensor) -> Tensor:
        """Codes of ids, (...) -> (..., dims)."""
        return (self.digits(ids) - self.half_width) / self.half_width

    def digits(self, ids: Tensor) -> Tensor:
        """Level of each number of the code, (...) -> (..., dims)."""
        return ids[..., None] // self.basis % self.radix

    def join(self, digits: Tensor) -> Tensor:
        """Ids of levels, (..., dims) -> (...); the inverse of `digits`."""
        return (digits * self.basis).sum(dim=-1)

    def positions(self) -> Tensor:
        """Levels of all ids, (num_codes, dims) float32."""
        return self.digits(torch.arange(self.num_codes, device=self.basis.device)).float()

    def _ids(self, rounded: Tensor) -> Tensor:
        return self.join((rounded + self.half_width).round().long())
