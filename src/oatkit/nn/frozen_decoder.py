"""`TokenDecoder` for generation: the same logits, as few operations as possible.

A call with one or a few slots is bound by reading the weights and by the number of operations.
So weights are kept in the layout that small products read fastest (input-major), residuals are
added by the products, and cross-attention is folded. With context keys K and values V of a head,

    softmax((h Wq) K^T) V Wo  =  softmax(h A) M,    A = Wq K^T (D, S),  M = V Wo (S, D)

where A and M are computed once per observation: two products with S columns a head instead of two
with D.

Shape letters: B batch, G slot of a call, R = B x G rows, S context slot, H head, C head width,
L layer, X = H x S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.float32_linear import at_least_float32
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.nn.transformer import CrossAttention, Mlp, SelfAttention


@dataclass(frozen=True, eq=False)
class _Layer:
    """Weights of one layer, (inputs, outputs), and its norms (weight, bias)."""

    norm_1: tuple[Tensor, Tensor]
    qkv: Tensor
    out: Tensor
    norm_2: tuple[Tensor, Tensor]
    norm_3: tuple[Tensor, Tensor]
    widen: Tensor
    widen_bias: Tensor
    narrow: Tensor
    narrow_bias: Tensor


class FrozenDecoder:
    """A copy of a decoder's weights."""

    def __init__(self, decoder: TokenDecoder) -> None:
        self.num_heads = cast(SelfAttention, decoder.attention[0]).num_heads
        self.symbols, self.positions = decoder.symbols.detach(), decoder.positions.detach()
        self.width = self.symbols.shape[1]
        self.norm = _norm(decoder.norm)
        self.bias = decoder.bias.detach()
        self.head = _input_major(self.symbols[: len(self.bias)])
        # scores are float32, because bfloat16 would make near ones equal
        self.scores = at_least_float32(self.bias), at_least_float32(self.head)
        parts = zip(decoder.attention, decoder.reading, decoder.mlp, strict=True)
        layers = [
            (cast(SelfAttention, a), cast(CrossAttention, r), cast(Mlp, m)) for a, r, m in parts
        ]
        self.layers = [_layer(*modules) for modules in layers]
        self.folding = torch.cat([self._folding(reading) for _, reading, _ in layers])

    def start(
        self, context: Sequence[tuple[Tensor, Tensor]], batch_size: int, num_slots: int
    ) -> FrozenGeneration:
        """Start a generation, with an empty cache.

        Args:
            context: Keys and values (B, H, S, C) of every layer.
            batch_size: Number of sequences, B.
            num_slots: Number of slots that the cache has room for.
        """
        return FrozenGeneration(self, context, batch_size, num_slots)

    def fold(self, context: Sequence[tuple[Tensor, Tensor]], batch_size: int) -> Tensor:
        """(L, 2, B, H S, D): A of each layer, transposed, and M, with all heads side by side."""
        heads, width = self.num_heads, self.width
        pairs_NBHSC = torch.stack([part for pair in context for part in pair])
        pairs = pairs_NBHSC.transpose(1, 2).reshape(len(self.folding), -1, width // heads)
        folded = torch.bmm(pairs, self.folding)
        shape = (len(self.layers), 2, heads, batch_size, -1, width)
        return folded.view(shape).transpose(2, 3).flatten(3, 4)

    def _folding(self, reading: CrossAttention) -> Tensor:
        """(2 H, C, D): the factors of the keys, then those of the values."""
        head_width = self.width // self.num_heads
        query_DD = reading.query.weight.detach() * head_width**-0.5
        out_DD = reading.out.weight.detach().t()
        return torch.cat([query_DD, out_DD]).view(-1, head_width, self.width)


class FrozenGeneration:
    """One generation: a context and a cache."""

    def __init__(
        self,
        frozen: FrozenDecoder,
        context: Sequence[tuple[Tensor, Tensor]],
        batch_size: int,
        num_slots: int,
    ) -> None:
        self._frozen = frozen
        self._length = 0
        heads, width = frozen.num_heads, frozen.width
        folded_L2BXD = frozen.fold(context, batch_size)
        self._folded = [(into.transpose(1, 2), back) for into, back in folded_L2BXD]
        shape = (len(frozen.layers), 2, batch_size, heads, num_slots, width // heads)
        self._caches = frozen.head.new_empty(shape).unbind()

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        """Logits (B, G, V), float32; only the first `num_kept` slots stay in the cache."""
        frozen, (batch_size, num_slots) = self._frozen, inputs_BG.shape
        heads, width = frozen.num_heads, frozen.width
        start, end = self._length, self._length + num_slots
        rows = (batch_size, num_slots, width)
        split = (batch_size, num_slots, 3, heads, width // heads)
        shape = (width,)
        x_RD = (frozen.symbols[inputs_BG] + frozen.positions[positions_G]).view(-1, width)
        for layer, cache, (into, back) in zip(
            frozen.layers, self._caches, self._folded, strict=True
        ):
            h_RD = torch.layer_norm(x_RD, shape, *layer.norm_1)
            qkv = torch.mm(h_RD, layer.qkv).view(split).permute(2, 0, 3, 1, 4)
            cache[:, :, :, start:end] = qkv[1:]
            keys, values = cache[:, :, :, :end].unbind()
            seen = F.scaled_dot_product_attention(qkv[0], keys, values, attn_mask=mask_GS)
            x_RD = torch.addmm(x_RD, seen.transpose(1, 2).reshape(-1, width), layer.out)

            h_RD = torch.layer_norm(x_RD, shape, *layer.norm_2)
            scores = torch.bmm(h_RD.view(rows), into).view(batch_size, num_slots, heads, -1)
            share = scores.softmax(dim=-1).view(batch_size, num_slots, -1)
            x_RD = torch.baddbmm(x_RD.view(rows), share, back).view(-1, width)

            h_RD = torch.layer_norm(x_RD, shape, *layer.norm_3)
            wide = torch.addmm(layer.widen_bias, h_RD, layer.widen).relu_()
            x_RD = torch.addmm(x_RD + layer.narrow_bias, wide, layer.narrow)
        self._length += num_kept
        h_RD = torch.layer_norm(x_RD, shape, *frozen.norm)
        bias_V, head_DV = frozen.scores
        return torch.addmm(bias_V, at_least_float32(h_RD), head_DV).view(batch_size, num_slots, -1)


def _layer(attention: SelfAttention, reading: CrossAttention, mlp: Mlp) -> _Layer:
    return _Layer(
        norm_1=_norm(attention.norm),
        qkv=_input_major(attention.qkv.weight),
        out=_input_major(attention.out.weight),
        norm_2=_norm(reading.norm),
        norm_3=_norm(mlp.norm),
        widen=_input_major(mlp.widen.weight),
        widen_bias=mlp.widen.bias.detach(),
        narrow=_input_major(mlp.narrow.weight),
        narrow_bias=mlp.narrow.bias.detach(),
    )


def _input_major(weight: Tensor) -> Tensor:
    return weight.detach().t().contiguous()


def _norm(norm: torch.nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return norm.weight.detach(), norm.bias.detach()
