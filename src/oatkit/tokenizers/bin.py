"""`bin`: every number of a chunk in one of 256 uniform bins, time step after time step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from oatkit.types import Schedule, Tokens


@dataclass(frozen=True)
class BinConfig:
    """Uniform bins over the normalized range [-1, 1]; values outside take the outermost bin."""

    horizon: int
    action_dim: int
    kind: Literal["bin"] = "bin"
    num_bins: int = 256

    def __post_init__(self) -> None:
        for name, least in (("horizon", 1), ("action_dim", 1), ("num_bins", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {least}")


class Bin(nn.Module):
    """The codec; it learns nothing beyond the normalizer."""

    is_ordered = False
    is_total = True
    is_fixed_length = True
    has_prefixes = False

    def __init__(self, config: BinConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.num_bins
        self.max_tokens = config.horizon * config.action_dim
        self.budgets = (self.max_tokens,)
        self.schedule = Schedule.blocks(self.max_tokens, config.action_dim)

    def code_positions(self) -> Tensor:
        return torch.arange(self.vocab_size).float()[:, None]

    def encode(self, actions_BTA: Tensor) -> Tokens:
        position = (actions_BTA + 1) / 2 * self.config.num_bins
        ids_BK = position.floor().long().clamp(0, self.config.num_bins - 1).flatten(1)
        return Tokens.full(ids_BK)

    def decode(self, tokens: Tokens) -> Tensor:
        """The centers of the bins."""
        centers_BK = (tokens.ids + 0.5) / self.config.num_bins * 2 - 1
        return centers_BK.view(-1, self.config.horizon, self.config.action_dim)
