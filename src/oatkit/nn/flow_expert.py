"""The flow-matching expert: velocities of noisy actions, given the keys and values of a context.

    noisy actions ── linear ── [ attention over the context and all action slots, MLP ] x layers
    flow time ── sinusoids ── MLP ── scale, shift and gate of every norm       ── linear ── velocity

Each layer reads the keys and values that one layer of the context's model computed, unchanged. So
it has the same head width, the same number of key heads, and rotary positions that go on counting
where the context ends.

Shape letters: B batch, T action slot, S context slot, D width, E three widths (scale, shift, gate),
H head, C head width, A action, N flow time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.transformer import join_heads, split_heads

SHORTEST_PERIOD, LONGEST_PERIOD = 4e-3, 4.0


class Attended(Protocol):
    """What the layers of an expert attend to: a context, and the action slots themselves."""

    @property
    def pairs(self) -> Sequence[tuple[Tensor, Tensor]]:
        """Keys and values of the context, one pair for each layer of the expert."""

    @property
    def rotary(self) -> tuple[Tensor, Tensor]:
        """Cosines and sines (B, T, C) of the positions of the action slots."""

    def attend(
        self, pair: tuple[Tensor, Tensor], query_BHTC: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """What the action slots see (B, H, T, C), given the pair of their layer."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The context as the expert reads it in training, with a gradient to it if it has one.

    Attributes:
        pairs: Keys and values (B, H, S, C), one pair for each layer of the expert.
        is_seen: (B, S) bool, whether a context slot takes part in attention.
        rotary: Cosines and sines (B, T, C) of the positions of the action slots.
    """

    pairs: Sequence[tuple[Tensor, Tensor]]
    is_seen: Tensor
    rotary: tuple[Tensor, Tensor]

    def attend(
        self, pair: tuple[Tensor, Tensor], query_BHTC: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """What the action slots see (B, H, T, C), given the pair of their layer."""
        return F.scaled_dot_product_attention(
            query_BHTC,
            torch.cat([pair[0].to(keys.dtype), keys], dim=2),
            torch.cat([pair[1].to(values.dtype), values], dim=2),
            attn_mask=F.pad(self.is_seen, (0, keys.shape[2]), value=True)[:, None, None],
            enable_gqa=True,
        )

    def repeat(self, count: int) -> Memory:
        """Every row of the batch `count` times in a row."""

        def rows(x: Tensor) -> Tensor:
            return x.repeat_interleave(count, dim=0)

        cos, sin = self.rotary
        pairs = [(rows(keys), rows(values)) for keys, values in self.pairs]
        return Memory(pairs, rows(self.is_seen), (rows(cos), rows(sin)))


class AdaptiveNorm(nn.Module):
    """RMS norm whose scale and shift, and the gate of what follows it, depend on the flow time.

    `modulate` makes them of the flow time, which is the same for all slots.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulate = nn.Linear(width, 3 * width)
        nn.init.zeros_(self.modulate.weight)
        nn.init.zeros_(self.modulate.bias)

    def forward(self, x_BTD: Tensor, changes_BE: Tensor) -> tuple[Tensor, Tensor]:
        """The normalized slots and the gate, which is 1 before training."""
        scale, shift, gate = changes_BE[:, None].chunk(3, dim=-1)
        normed = F.rms_norm(x_BTD, x_BTD.shape[-1:], eps=1e-6)
        return normed * (1 + scale) + shift, 1 + gate


class ExpertLayer(nn.Module):
    """Attention over context and action slots, then a gated MLP."""

    def __init__(self, width: int, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.norm_1, self.norm_2 = AdaptiveNorm(width), AdaptiveNorm(width)
        self.query = nn.Linear(width, num_heads * head_dim, bias=False)
        self.key_value = nn.Linear(width, 2 * num_kv_heads * head_dim, bias=False)
        self.out = nn.Linear(num_heads * head_dim, width, bias=False)
        self.widen = nn.Linear(width, 8 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(
        self, x_BTD: Tensor, time_BD: Tensor, pair: tuple[Tensor, Tensor], memory: Attended
    ) -> Tensor:
        return self.run(x_BTD, *self.changes(time_BD), pair, memory)

    def changes(self, time_BD: Tensor) -> tuple[Tensor, Tensor]:
        """What the flow time makes of the two norms, (B, E) each."""
        return self.norm_1.modulate(time_BD), self.norm_2.modulate(time_BD)

    def run(
        self,
        x_BTD: Tensor,
        first_BE: Tensor,
        second_BE: Tensor,
        pair: tuple[Tensor, Tensor],
        memory: Attended,
    ) -> Tensor:
        """The slots after this layer, given the changes of its norms."""
        h_BTD, gate = self.norm_1(x_BTD, first_BE)
        keys, values = self.key_value(h_BTD).chunk(2, dim=-1)
        query = _rotated(split_heads(self.query(h_BTD), self.num_heads), memory.rotary)
        keys = _rotated(split_heads(keys, self.num_kv_heads), memory.rotary)
        values = split_heads(values, self.num_kv_heads)
        seen = memory.attend(pair, query, keys, values)
        x_BTD = x_BTD + gate * self.out(join_heads(seen))
        h_BTD, gate = self.norm_2(x_BTD, second_BE)
        wide, act = self.widen(h_BTD).chunk(2, dim=-1)
        return x_BTD + gate * self.narrow(wide * F.gelu(act, approximate="tanh"))


class FlowExpert(nn.Module):
    """Velocity (B, T, A) of noisy actions; see the module's drawing.

    Args:
        action_dim: Number of action dimensions, A.
        width: Width of an action slot, D.
        num_layers: Number of layers; each reads one pair of keys and values.
        num_heads: Number of query heads.
        num_kv_heads: Number of key and value heads, that of the context.
        head_dim: Width of a head, C, that of the context.
    """

    def __init__(
        self,
        action_dim: int,
        *,
        width: int,
        num_layers: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
    ) -> None:
        super().__init__()
        self.into = nn.Linear(action_dim, width)
        self.time = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.layers = nn.ModuleList(
            ExpertLayer(width, num_heads, num_kv_heads, head_dim) for _ in range(num_layers)
        )
        self.norm = AdaptiveNorm(width)
        self.out = nn.Linear(width, action_dim)

    def forward(self, noisy_BTA: Tensor, time_B: Tensor, memory: Attended) -> Tensor:
        x_BTD = self._embed(noisy_BTA)
        time_BD = self._encode_time(time_B)
        for layer, pair in zip(self.layers, memory.pairs, strict=True):
            x_BTD = cast(ExpertLayer, layer)(x_BTD, time_BD, pair, memory)
        velocity_BTA = self.out(self.norm(x_BTD, self.norm.modulate(time_BD))[0])
        return velocity_BTA[..., : noisy_BTA.shape[-1]]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.into.weight.dtype

    def changes(self, time_N: Tensor) -> list[Tensor]:
        """What several flow times make of all norms, (N, E) each, in the order of the norms."""
        time_ND = self._encode_time(time_N)
        found: list[Tensor] = []
        for layer in self.layers:
            found += cast(ExpertLayer, layer).changes(time_ND)
        return [*found, self.norm.modulate(time_ND)]

    def velocity(self, noisy_BTA: Tensor, changes: Sequence[Tensor], memory: Attended) -> Tensor:
        """The same as calling the expert, given what the flow time makes of the norms."""
        x_BTD = self._embed(noisy_BTA)
        of_layers = zip(changes[:-1:2], changes[1::2], strict=True)
        for layer, own, pair in zip(self.layers, of_layers, memory.pairs, strict=True):
            x_BTD = cast(ExpertLayer, layer).run(x_BTD, *own, pair, memory)
        return self.out(self.norm(x_BTD, changes[-1])[0])[..., : noisy_BTA.shape[-1]]

    def _embed(self, noisy_BTA: Tensor) -> Tensor:
        """Action slots; of fewer dimensions than there are, the others are 0."""
        missing = self.into.in_features - noisy_BTA.shape[-1]
        return self.into(F.pad(noisy_BTA, (0, missing)).to(self.dtype))

    def _encode_time(self, time_B: Tensor) -> Tensor:
        return self.time(time_code(time_B, self.into.out_features).to(self.dtype))


def time_code(time_B: Tensor, width: int) -> Tensor:
    """Sines and cosines (B, width) of the flow time, with periods from 0.004 to 4."""
    angle = 2 * math.pi * time_B[:, None] / time_periods(width, time_B.device)
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, width % 2))


def time_periods(width: int, device: torch.device) -> Tensor:
    """Periods (width // 2,) of the sines and cosines of `time_code`."""
    steps = torch.linspace(0, 1, width // 2, device=device)
    return SHORTEST_PERIOD * (LONGEST_PERIOD / SHORTEST_PERIOD) ** steps


def _rotated(x_BHTC: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Heads rotated by their positions; number i of each half is a coordinate of plane i."""
    cos, sin = (part[:, None].to(x_BHTC.dtype) for part in rotary)
    first, second = x_BHTC.chunk(2, dim=-1)
    return x_BHTC * cos + torch.cat([-second, first], dim=-1) * sin
