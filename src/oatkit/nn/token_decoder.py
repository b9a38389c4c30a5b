"""A transformer over token slots that reads a context; `frozen_decoder` generates with its weights.

Shape letters: B batch, K token slot, S context slot, D width, V predicted symbol.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oatkit.nn.float32_linear import linear_in_float32
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.transformer import CrossAttention, KeysValues, Mlp, SelfAttention, drop


class TokenDecoder(nn.Module):
    """Layers of masked self-attention, cross-attention to the context and an MLP.

    Args:
        num_inputs: Number of symbols that a slot may hold.
        num_outputs: Number of symbols that may be predicted, the first of those; the head is tied
            to their embeddings.
        num_positions: Number of positions that a slot may have.
        width: Width of slots and context.
        num_layers: Number of layers.
        num_heads: Number of attention heads, which divides the width.
        dropout: Share of each residual branch that training drops.
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        num_positions: int,
        *,
        width: int,
        num_layers: int,
        num_heads: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.symbols = nn.Parameter(0.02 * torch.randn(num_inputs, width))
        self.positions = nn.Parameter(0.02 * torch.randn(num_positions, width))
        self.bias = nn.Parameter(torch.zeros(num_outputs))
        self.keys_values = KeysValues(width, num_heads, num_layers)
        self.attention = nn.ModuleList(SelfAttention(width, num_heads) for _ in range(num_layers))
        self.reading = nn.ModuleList(CrossAttention(width, num_heads) for _ in range(num_layers))
        self.mlp = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout

    def forward(
        self,
        inputs_BK: Tensor,
        positions_K: Tensor,
        mask: Tensor | None,
        context: list[tuple[Tensor, Tensor]],
        random: SampleRandom | None = None,
    ) -> Tensor:
        """Logits (B, K, V), float32: bfloat16 would make near ones equal.

        Args:
            inputs_BK: Symbols that the slots hold.
            positions_K: Positions of the slots.
            mask: (K, K) bool, which slot (row) sees which (column); None where every slot sees all.
            context: Keys and values of every layer, as `keys_values` gives them.
            random: Random numbers of dropout; None drops nothing.
        """
        x = self.symbols[inputs_BK] + self.positions[positions_K]
        for layer, (keys, values) in enumerate(context):
            x = x + drop(self.attention[layer](x, mask), self.dropout, random)
            x = x + drop(self.reading[layer](x, keys, values), self.dropout, random)
            x = x + drop(self.mlp[layer](x), self.dropout, random)
        return linear_in_float32(self.norm(x), self.symbols[: len(self.bias)], self.bias)
