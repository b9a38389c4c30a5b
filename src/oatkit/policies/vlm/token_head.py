"""The rows that action tokens add to a backbone's vocabulary, and what they are used for.

The rows stand apart from the backbone's own, so they are trained also where those are frozen, and
logits are computed for them alone. The same row embeds a token and scores it.

Shape letters: B batch, K packed slot, G slot of a stage, V action token, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oatkit.policies.generation.blockwise import Feed, Packing, Stage, pack, pack_shifted
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.backbones.key_value_cache import GrowingCache
from oatkit.types import Schedule

SPREAD = 1.0
"""Of new rows around the mean of the known ones, in standard deviations of those."""


class TokenHead(nn.Module):
    """Action tokens in and logits out, through a backbone that it is given.

    Args:
        known_ND: Rows that the vocabulary has.
        vocab_size: Of the tokenizer; after it come the end symbol, if any, and the mask.
        has_end: Whether rows end with a symbol.
        is_shifted: Whether slots are shifted by one leading mask, as in co-training; else they are
            those of block-wise autoregression.
    """

    def __init__(
        self, known_ND: Tensor, *, vocab_size: int, has_end: bool, is_shifted: bool
    ) -> None:
        super().__init__()
        self.end_id = vocab_size if has_end else None
        self.num_outputs = vocab_size + has_end
        self.mask_id = self.num_outputs
        self.is_shifted = is_shifted
        self.rows = nn.Parameter(new_rows(known_ND, self.num_outputs + 1, SPREAD))

    def logits(
        self, backbone: Backbone, ids_BK: Tensor, schedule: Schedule, context: Context
    ) -> Tensor:
        """The packed pass: (B, K, V), slot k predicts token k."""
        packing = self._packing(schedule, ids_BK.device)
        inputs_BK = packing.inputs(ids_BK, self.mask_id)
        hidden_BKD = backbone.run(self.rows[inputs_BK], packing.positions, packing.mask, context)
        return self._scores(hidden_BKD)

    def start(self, backbone: Backbone, context: Context, schedule: Schedule) -> Feed:
        """The backbone with a cache that holds the context alone."""
        cache = GrowingCache(context.pairs, schedule.num_tokens)
        num_before = cache.length
        stages = iter(self._packing(schedule, self.rows.device).stages)

        def feed(inputs_BG: Tensor, stage: Stage) -> Tensor:
            stage, num_slots = next(stages), inputs_BG.shape[1]  # those of this head's packing
            mask_GS = stage.mask
            if mask_GS is None:
                num_seen = cache.length - num_before + num_slots
                mask_GS = torch.ones(num_slots, num_seen, dtype=torch.bool, device=inputs_BG.device)
            embeds_BGD = self.rows[inputs_BG]
            hidden_BGD = backbone.run_cached(embeds_BGD, stage.positions, mask_GS, context, cache)
            cache.keep(stage.num_kept)
            return self._scores(hidden_BGD)

        return feed

    def _packing(self, schedule: Schedule, device: torch.device) -> Packing:
        if self.is_shifted:
            return pack_shifted(schedule.num_tokens, device)
        return pack(schedule, device)

    def _scores(self, hidden_BGD: Tensor) -> Tensor:
        rows_VD = self.rows[: self.num_outputs]
        return hidden_BGD.to(rows_VD.dtype) @ rows_VD.t()


def new_rows(known_ND: Tensor, count: int, spread: float) -> Tensor:
    """(count, D) drawn from a normal distribution with mean and covariance of the known rows."""
    known_ND = known_ND.float()
    mean_D = known_ND.mean(dim=0)
    centered_ND = known_ND - mean_D
    variance_D, axes_DD = torch.linalg.eigh(centered_ND.t() @ centered_ND / len(known_ND))
    drawn = torch.randn(count, len(mean_D), device=known_ND.device)
    return mean_D + spread * (drawn * variance_D.clamp(min=0).sqrt()) @ axes_DD.t()
