"""The embeddings that action tokens add to a backbone, and the logits that they give.

They are kept apart from the backbone's own embeddings, so that they are trained even if those are
frozen, and logits are computed for action tokens alone. The same row embeds a token and scores it.

Shape letters: B batch, K packed slot, G slot of a stage, V action token, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oatkit.nn.decoder_backend import Generation
from oatkit.policies.generation.packing import Packing, pack, pack_shifted
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache
from oatkit.types import Schedule

SPREAD = 1.0
"""Spread of new embeddings around the mean of those of text, as a multiple of theirs."""


class TokenHead(nn.Module):
    """Embeds action tokens, runs them through a backbone and gives logits.

    Args:
        text_ND: Embeddings of the backbone's text tokens.
        vocab_size: Number of tokens of the tokenizer; the end symbol, if any, and the mask follow.
        has_end: Whether sequences end with an end symbol.
        is_shifted: Whether one leading mask shifts the tokens by a slot, as in co-training;
            otherwise slots are those of block-wise autoregression.
    """

    def __init__(
        self, text_ND: Tensor, *, vocab_size: int, has_end: bool, is_shifted: bool
    ) -> None:
        super().__init__()
        self.end_id = vocab_size if has_end else None
        self.num_outputs = vocab_size + has_end
        self.mask_id = self.num_outputs
        self.is_shifted = is_shifted
        self.rows = nn.Parameter(sample_embeddings(text_ND, self.num_outputs + 1, SPREAD))

    def logits(
        self, backbone: Backbone, ids_BK: Tensor, schedule: Schedule, context: Context
    ) -> Tensor:
        """Logits (B, K, V) of the packed pass; slot k predicts token k."""
        packing = self.pack(schedule, ids_BK.device)
        inputs_BK = packing.inputs(ids_BK, self.mask_id)
        hidden_BKD = backbone.run(self.rows[inputs_BK], packing.positions, packing.mask, context)
        return self.scores(hidden_BKD)

    def start(self, backbone: Backbone, context: Context, num_slots: int) -> Generation:
        """Start a generation; its cache holds the context alone."""
        return _CachedGeneration(self, backbone, context, num_slots)

    def stage(
        self,
        backbone: Backbone,
        inputs_BG: Tensor,
        positions_G: Tensor,
        mask_GS: Tensor,
        context: Context,
        cache: GrowingCache,
    ) -> Tensor:
        """Logits (B, G, V) of one stage, whose keys and values the cache gets."""
        embeds_BGD = self.rows[inputs_BG]
        return self.scores(backbone.run_cached(embeds_BGD, positions_G, mask_GS, context, cache))

    def pack(self, schedule: Schedule, device: torch.device) -> Packing:
        """The stages of a schedule as this head reads them."""
        return (pack_shifted if self.is_shifted else pack)(schedule, device)

    def scores(self, hidden_BGD: Tensor) -> Tensor:
        """Logits (B, G, V) of hidden states, in float32: bfloat16 would make near ones equal."""
        with torch.autocast(hidden_BGD.device.type, enabled=False):
            rows_VD = self.rows[: self.num_outputs].float()
            return hidden_BGD.float() @ rows_VD.t()


class _CachedGeneration:
    """One generation: a context, and a cache that grows by the tokens."""

    def __init__(
        self, head: TokenHead, backbone: Backbone, context: Context, num_slots: int
    ) -> None:
        self._head = head
        self._backbone = backbone
        self._context = context
        self._cache = GrowingCache(context.pairs, num_slots)
        self._num_context = self._cache.length

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        """Logits (B, G, V); only the first `num_kept` slots stay in the cache."""
        if mask_GS is None:
            mask_GS = full_mask(inputs_BG, self._cache.length - self._num_context)
        logits_BGV = self._head.stage(
            self._backbone, inputs_BG, positions_G, mask_GS, self._context, self._cache
        )
        self._cache.keep(num_kept)
        return logits_BGV


def full_mask(inputs_BG: Tensor, num_before: int) -> Tensor:
    """Mask (G, S) of a stage whose slots see each other and all suffix slots before them."""
    num_slots = inputs_BG.shape[1]
    size = (num_slots, num_before + num_slots)
    return torch.ones(size, dtype=torch.bool, device=inputs_BG.device)


def sample_embeddings(text_ND: Tensor, count: int, spread: float) -> Tensor:
    """Embeddings (count, D) from a normal distribution with mean and covariance of those of text.

    Args:
        text_ND: Embeddings of text tokens.
        count: Number of embeddings.
        spread: Factor of their standard deviations.
    """
    text_ND = text_ND.float()
    mean_D = text_ND.mean(dim=0)
    centered_ND = text_ND - mean_D
    variance_D, axes_DD = torch.linalg.eigh(centered_ND.t() @ centered_ND / len(text_ND))
    normal = torch.randn(count, len(mean_D), device=text_ND.device)
    return mean_D + spread * (normal * variance_D.clamp(min=0).sqrt()) @ axes_DD.t()
