"""A transformer over the steps of a chunk that gives their velocity, and reads a context.

    noisy actions ── linear ── add positions and flow time
        ── [ self-attention, cross-attention to the context, MLP ] x layers ── linear ── velocity

It is the counterpart of `TokenDecoder`: the same layers, and steps in place of tokens.

Shape letters: B batch, R row: a sample with one of its draws, T step in the chunk, Q step of all
draws of a sample, S context slot, D width, A action dimension, N flow time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.flow import euler_times, integrate
from oatkit.nn.flow_expert import time_code
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.transformer import CrossAttention, KeysValues, Mlp, SelfAttention, drop

Pairs = list[tuple[Tensor, Tensor]]
"""Keys and values (B, H, S, C) of every layer."""


class FlowHead(nn.Module):
    """Velocity (R, T, A) of noisy actions; see the module's drawing.

    Args:
        horizon: Number of steps of a chunk, T.
        action_dim: Number of action dimensions, A.
        width: Width of steps and context.
        num_layers: Number of layers.
        num_heads: Number of attention heads, which divides the width.
        dropout: Share of each residual branch that training drops.
    """

    def __init__(
        self,
        horizon: int,
        action_dim: int,
        *,
        width: int,
        num_layers: int,
        num_heads: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.into = nn.Linear(action_dim, width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.positions = nn.Parameter(0.02 * torch.randn(horizon, width))
        self.keys_values = KeysValues(width, num_heads, num_layers)
        self.attention = nn.ModuleList(SelfAttention(width, num_heads) for _ in range(num_layers))
        self.reading = nn.ModuleList(CrossAttention(width, num_heads) for _ in range(num_layers))
        self.mlp = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, action_dim)
        self.dropout = dropout

    def encode_time(self, time_N: Tensor) -> Tensor:
        """What flow times add to every step, (N, D)."""
        encoded_ND: Tensor = self.time(time_code(time_N, self.into.out_features).to(self._dtype))
        return encoded_ND

    def forward(
        self,
        noisy_RTA: Tensor,
        time_RD: Tensor,
        context: Pairs,
        random: SampleRandom | None = None,
    ) -> Tensor:
        """Velocities (R, T, A).

        Args:
            noisy_RTA: Noisy actions; the draws of a sample are rows that follow each other. Of
                fewer dimensions than there are, the others are 0 and have no velocity.
            time_RD: Flow time of each row, or of all rows in one, as `encode_time` gives it.
            context: Keys and values of every layer, as `keys_values` gives them.
            random: Random numbers of dropout, for each sample; None drops nothing.
        """
        padded_RTA = F.pad(noisy_RTA, (0, self.into.in_features - noisy_RTA.shape[-1]))
        x_RTD = self.into(padded_RTA.to(self._dtype)) + self.positions + time_RD[:, None]
        # all draws of a sample read its context together, and its dropout is drawn together
        x_BQD = x_RTD.reshape(len(context[0][0]), -1, x_RTD.shape[-1])
        for layer, (keys, values) in enumerate(context):
            seen_RTD = self.attention[layer](x_BQD.view(x_RTD.shape), None)
            x_BQD = x_BQD + drop(seen_RTD.view(x_BQD.shape), self.dropout, random)
            x_BQD = x_BQD + drop(self.reading[layer](x_BQD, keys, values), self.dropout, random)
            x_BQD = x_BQD + drop(self.mlp[layer](x_BQD), self.dropout, random)
        velocity_BQA: Tensor = self.out(self.norm(x_BQD))
        return velocity_BQA.view(padded_RTA.shape)[..., : noisy_RTA.shape[-1]]

    @torch.no_grad()
    def integrate(self, noise_BTA: Tensor, context: Pairs, num_steps: int) -> Tensor:
        """Chunks (B, T, A), reached from noise in Euler steps, without a gradient."""
        times = torch.tensor(euler_times(num_steps), device=noise_BTA.device)
        time_ND = self.encode_time(times)
        return integrate(
            lambda point_BTA, step: self(point_BTA, time_ND[step : step + 1], context),
            noise_BTA,
            num_steps,
        )

    @property
    def _dtype(self) -> torch.dtype:
        return self.into.weight.dtype
