"""The parts that transformers of tokenizers and policies are made of.

All are pre-norm, with ReLU and without biases in attention. What does not depend on the batch
(registers, queries of action positions) stays at batch size 1 until it meets what does.

Shape letters: B batch, Q query slot, S source slot, D width, H head, C head width, L layer.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom


class Mlp(nn.Module):
    """Layer norm, then an MLP with one hidden layer of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x_BQD: Tensor) -> Tensor:
        return self.narrow(F.relu(self.widen(self.norm(x_BQD))))


class SelfAttention(nn.Module):
    """Layer norm, then slots attend to each other where the mask (Q, Q) allows."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x_BQD: Tensor, mask_QQ: Tensor | None) -> Tensor:
        q, k, v = self.qkv(self.norm(x_BQD)).chunk(3, dim=-1)
        q, k, v = (split_heads(x, self.num_heads) for x in (q, k, v))
        return self.out(join_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask_QQ)))


class CrossAttention(nn.Module):
    """Layer norm, then slots attend to keys and values that `KeysValues` projected."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x_BQD: Tensor, keys_BHSC: Tensor, values_BHSC: Tensor) -> Tensor:
        q = split_heads(self.query(self.norm(x_BQD)), self.num_heads)
        q = q.expand(len(keys_BHSC), -1, -1, -1)
        return self.out(join_heads(F.scaled_dot_product_attention(q, keys_BHSC, values_BHSC)))


class KeysValues(nn.Module):
    """Keys and values for all cross-attention layers at once, in one large product."""

    def __init__(self, width: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_layers = num_layers
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 2 * width * num_layers, bias=False)

    def forward(self, source_BSD: Tensor) -> list[tuple[Tensor, Tensor]]:
        parts = self.project(self.norm(source_BSD)).chunk(2 * self.num_layers, dim=-1)
        heads = [split_heads(part, self.num_heads) for part in parts]
        return list(zip(heads[0::2], heads[1::2], strict=True))


class Transformer(nn.Module):
    """Slots that attend to each other where the mask (Q, Q) allows."""

    mask: Tensor

    def __init__(
        self, width: int, num_layers: int, num_heads: int, mask: Tensor, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention = nn.ModuleList(SelfAttention(width, num_heads) for _ in range(num_layers))
        self.mlp = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x_BQD: Tensor, random: SampleRandom | None = None) -> Tensor:
        x = x_BQD
        for attention, mlp in zip(self.attention, self.mlp, strict=True):
            x = x + drop(attention(x, self.mask), self.dropout, random)
            x = x + drop(mlp(x), self.dropout, random)
        return self.norm(x)


class CrossDecoder(nn.Module):
    """Queries that attend to a source and never to each other.

    Args:
        width: Width of queries and source.
        num_layers: Number of layers, each of cross-attention and an MLP.
        num_heads: Number of attention heads, which divides the width.
        dropout: Share of each residual branch that training drops.
    """

    def __init__(self, width: int, num_layers: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.keys_values = KeysValues(width, num_heads, num_layers)
        self.attention = nn.ModuleList(CrossAttention(width, num_heads) for _ in range(num_layers))
        self.mlp = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout

    def forward(
        self, queries_1QD: Tensor, source_BSD: Tensor, random: SampleRandom | None = None
    ) -> Tensor:
        x = queries_1QD
        pairs = self.keys_values(source_BSD)
        for attention, mlp, (keys, values) in zip(self.attention, self.mlp, pairs, strict=True):
            x = x + drop(attention(x, keys, values), self.dropout, random)
            x = x + drop(mlp(x), self.dropout, random)
        return self.norm(x)


class RegisterEncoder(nn.Module):
    """Registers that attend to a source, and to each other as far as a mask allows.

    Args:
        width: Width of registers and source.
        num_layers: Number of layers, each of masked self-attention, cross-attention and an MLP.
        num_heads: Number of attention heads, which divides the width.
        mask: (Q, Q) bool, which register (row) sees which (column); None leaves self-attention out,
            so that registers do not see each other at all.
        dropout: Share of each residual branch that training drops.
    """

    mask: Tensor | None

    def __init__(
        self,
        width: int,
        num_layers: int,
        num_heads: int,
        mask: Tensor | None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.keys_values = KeysValues(width, num_heads, num_layers)
        self.self_attention = nn.ModuleList(
            SelfAttention(width, num_heads) for _ in range(num_layers if mask is not None else 0)
        )
        self.attention = nn.ModuleList(CrossAttention(width, num_heads) for _ in range(num_layers))
        self.mlp = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.register_buffer("mask", mask, persistent=False)

    def forward(
        self, registers_1QD: Tensor, source_BSD: Tensor, random: SampleRandom | None = None
    ) -> Tensor:
        x = registers_1QD
        for layer, (keys, values) in enumerate(self.keys_values(source_BSD)):
            if self.mask is not None:
                seen = self.self_attention[layer](x, self.mask)
                x = x + drop(seen, self.dropout, random)
            x = x + drop(self.attention[layer](x, keys, values), self.dropout, random)
            x = x + drop(self.mlp[layer](x), self.dropout, random)
        return self.norm(x)


def causal_mask(num_slots: int) -> Tensor:
    """Mask (Q, Q), bool: a slot sees itself and all slots before it."""
    return torch.ones(num_slots, num_slots, dtype=torch.bool).tril()


def drop(x: Tensor, share: float, random: SampleRandom | None) -> Tensor:
    """Dropout by the random numbers of the samples; without them, or with share 0, x as it is."""
    if random is None or share == 0.0:
        return x
    keep = random.uniform(*x.shape[1:]) >= share
    return x * keep / (1 - share)


def split_heads(x_BQD: Tensor, num_heads: int) -> Tensor:
    """Heads of slots, (B, Q, D) -> (B, H, Q, C)."""
    return x_BQD.view(*x_BQD.shape[:2], num_heads, -1).transpose(1, 2)


def join_heads(x_BHQC: Tensor) -> Tensor:
    """Slots of heads, (B, H, Q, C) -> (B, Q, D); the inverse of `split_heads`."""
    return x_BHQC.transpose(1, 2).flatten(2)


def sinusoids(num_positions: int, width: int) -> Tensor:
    """Fixed position embeddings, (positions, width)."""
    frequencies = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
    angles = torch.arange(num_positions)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
