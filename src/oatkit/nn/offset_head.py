"""A network that corrects a decoded chunk by what a policy sees.

    context, all slots ──── linear ──┐
    decoded chunk ───────── linear ──┼── layers ── linear ── offset ── + ── corrected chunk
    number of tokens ────── look up ─┘                                 │
                  decoded chunk ───────────────────────────────────────┘

Tokens say which motion to make, in steps as coarse as their codes; the offset says where exactly,
which a regression learns better than a choice among codes does. It is zero before training.

Shape letters: B batch, T step in the chunk, A action dimension, S context slot, D width.
"""

from __future__ import annotations

from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.transformer import Mlp, drop


class OffsetHead(nn.Module):
    """Corrected chunks; see the module's drawing.

    Args:
        chunk_shape: Number of steps of a chunk, T, and of action dimensions, A.
        num_slots: Number of context slots, S.
        max_tokens: Largest number of tokens that a chunk is decoded from.
        width: Width of the context.
        num_layers: Number of layers.
        dropout: Share of each layer that training drops.
    """

    def __init__(
        self,
        chunk_shape: tuple[int, int],
        num_slots: int,
        max_tokens: int,
        *,
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
        x_BD = x_BD + self.count(lengths_B)
        for layer in self.layers:
            x_BD = x_BD + drop(layer(x_BD), self.dropout, random)
        return chunk_BTA + self.out(self.norm(x_BD)).view(chunk_BTA.shape)
