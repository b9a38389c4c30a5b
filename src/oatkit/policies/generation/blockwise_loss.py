"""The training loss of block-wise autoregression on the logits of a packed pass.

Shape letters: B batch, K packed slot, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.policies.generation.code_smoothing import CodeSmoothing
from oatkit.policies.generation.packing import pack
from oatkit.types import Schedule, Tokens


def fit_to_schedule(
    tokens: Tokens, schedule: Schedule, end_id: int | None
) -> tuple[Tokens, Schedule]:
    """Tokens as wide as the schedule; with an end symbol only the stages that some row reaches."""
    if end_id is not None:  # slots past every row's end cost time and teach nothing
        longest = int(tokens.lengths.max()) + 1
        schedule = schedule.up_to(min(longest, schedule.num_tokens))
    # the negative padding of wider tokens cuts them
    ids_BK = F.pad(tokens.ids, (0, schedule.num_tokens - tokens.ids.shape[1]))
    return Tokens(ids_BK, tokens.lengths), schedule


def targets(tokens: Tokens, num_slots: int, end_id: int | None) -> tuple[Tensor, Tensor]:
    """Id that each slot should predict, (B, K), and whether it counts, (B, K) bool.

    Args:
        tokens: Sequences of any length up to `num_slots`.
        num_slots: Number of slots, K.
        end_id: Id to predict after a row's last token, if there is a slot left; None where all
            rows are of full length.
    """
    ids_BK = F.pad(tokens.ids, (0, num_slots - tokens.ids.shape[1]))
    slot_K = torch.arange(num_slots, device=ids_BK.device)
    if end_id is None:
        return ids_BK, torch.ones_like(ids_BK, dtype=torch.bool)
    end_B1 = tokens.lengths[:, None]
    return torch.where(slot_K == end_B1, end_id, ids_BK), slot_K <= end_B1


def blockwise_loss(
    logits_BKV: Tensor,
    tokens: Tokens,
    schedule: Schedule,
    end_id: int | None,
    smoothing: CodeSmoothing | None = None,
) -> Tensor:
    """The paper's loss of a packed pass: the mean in each block, then over stages, then over rows.

    With an end symbol: the mean over a row's own length and the end slot, then over rows.

    Args:
        logits_BKV: Logits of the packed pass.
        tokens: True tokens.
        schedule: Blocks of the pass.
        end_id: Id after a row's last token; None where all rows are of full length.
        smoothing: Makes the targets; each is the true id alone by default. The entropy of the
            targets is taken off the loss, so that 0 is a perfect prediction either way.
    """
    wanted_BK, counts_BK = targets(tokens, schedule.num_tokens, end_id)
    logits_NV = logits_BKV.flatten(0, 1)
    if smoothing is None:
        loss_N = F.cross_entropy(logits_NV, wanted_BK.flatten(), reduction="none")
    else:
        shares_BKV, entropies_BK = smoothing(wanted_BK)
        loss_N = F.cross_entropy(logits_NV, shares_BKV.flatten(0, 1), reduction="none")
        loss_N = loss_N - entropies_BK.flatten()
    loss_BK = loss_N.view_as(wanted_BK)
    if end_id is None:
        return (loss_BK * pack(schedule, loss_BK.device).weights).sum(dim=1).mean()
    return ((loss_BK * counts_BK).sum(dim=1) / counts_BK.sum(dim=1)).mean()
