"""A network that corrects a decoded chunk by what a policy sees.

    context, all slots ──── linear ──┐
    decoded chunk ───────── linear ──┼── layers ── linear ── offset ── + ── corrected chunk
    number of tokens ────── look up ─┘                                 │
                  decoded chunk ───────────────────────────────────────┘

Tokens say which motion to make, in steps as coarse as their codes; the offset says where exactly,
which a regression learns better than a choice among codes does. It is zero before training.

Shape letters: B batch, T step in the chunk, A action dimension, S context slot, D width, N number
of tokens, C number of tokens that is trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.transformer import Mlp, drop


class OffsetHead(nn.Module):
    """Corrected chunks; see the module's drawing.

    Args:
        chunk_shape: Number of steps of a chunk, T, and of action dimensions, A.
        num_slots: Number of context slots, S.
        max_tokens: Largest number of tokens that a chunk is decoded from.
        trained: Numbers of tokens whose chunks it learns to correct, in growing order; any other
            number is taken for the next smaller of them. All by default.
        width: Width of the context.
        num_layers: Number of layers.
        dropout: Share of each layer that training drops.
    """

    known_count: Tensor

    def __init__(
        self,
        chunk_shape: tuple[int, int],
        num_slots: int,
        max_tokens: int,
        *,
        trained: Sequence[int] | None = None,
        width: int,
        num_layers: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        size = chunk_shape[0] * chunk_shape[1]
        self.context = nn.Linear(num_slots * width, width)
        self.chunk = nn.Linear(size, width)
        self.count = nn.Embedding(max_tokens + 1, width)
        self.layers = nn.ModuleList(Mlp(width) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, size)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.dropout = dropout
        counts_N = torch.arange(max_tokens + 1)
        if trained is not None:
            trained_C = torch.tensor(tuple(trained))
            place_N = torch.bucketize(counts_N, trained_C, right=True) - 1
            counts_N = trained_C[place_N.clamp(min=0)]
        self.register_buffer("known_count", counts_N, persistent=False)

    @property
    def count_rows(self) -> Tensor:
        """(tokens, D): what is added for each number of tokens, from 0."""
        return self.count.weight[self.known_count]

    def forward(
        self,
        chunk_BTA: Tensor,
        lengths_B: Tensor,
        context_BSD: Tensor,
        random: SampleRandom | None = None,
    ) -> Tensor:
        """Corrected chunks (B, T, A).

        Args:
            chunk_BTA: Decoded chunks, normalized.
            lengths_B: Number of tokens that each was decoded from.
            context_BSD: What the policy sees, encoded.
            random: Random numbers of dropout; None drops nothing.
        """
        read_BTA = chunk_BTA.to(self.out.weight.dtype)
        x_BD = self.context(context_BSD.flatten(1)) + self.chunk(read_BTA.flatten(1))
        x_BD = x_BD + self.count(self.known_count[lengths_B])
        for layer in self.layers:
            x_BD = x_BD + drop(layer(x_BD), self.dropout, random)
        return chunk_BTA + self.out(self.norm(x_BD)).view(chunk_BTA.shape)
