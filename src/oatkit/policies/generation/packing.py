"""Block-wise autoregression: the stages of a schedule, side by side in one packed pass.

Stage s of a schedule reads the last g_s slots of X^(s) = T_1 .. T_{b_{s-1}}, MASK^(g_s - g_{s-1}):
the block before it, then masks. These slots of all stages side by side are the packed pass, and
its slot k predicts token k:

    endpoints 1 2 4        stage 1    stage 2    stage 3
    input                  M          T1         T2  M
    position in X^(s)      0          0          1   2
    predicts               T1         T2         T3  T4

A realized token sees the blocks up to its own, both ways inside it, and no mask; a mask sees the
blocks before its stage and the masks of its stage. So a token's keys and values are the same in
every stage, and a cache may keep them.

Shape letters: B batch, K packed slot, G slot of a stage, S slot that is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from oatkit.types import Schedule


@dataclass(frozen=True, eq=False)
class Stage:
    """One call of cached generation, which is fed the block before it, then masks.

    Attributes:
        positions: (G,) index of each slot in X^(s).
        mask: (G, S) bool over all kept slots and these; None where every slot sees all.
        num_kept: Number of leading slots whose keys and values stay in the cache; those of the
            masks are dropped.
    """

    positions: Tensor
    mask: Tensor | None
    num_kept: int


@dataclass(frozen=True, eq=False)
class Packing:
    """All stages of a schedule in one pass.

    Attributes:
        source: (K,) index of the token that a slot holds; 0 where it holds a mask.
        is_mask: (K,) bool, whether a slot holds a mask.
        positions: (K,) index of each slot in its X^(s).
        mask: (K, K) bool, which slot (row) sees which (column).
        weights: (K,) 1 / (S g_s): the mean in a block, then over stages.
        stages: The same stage by stage, for cached generation.
    """

    source: Tensor
    is_mask: Tensor
    positions: Tensor
    mask: Tensor
    weights: Tensor
    stages: tuple[Stage, ...]

    def inputs(self, ids_BK: Tensor, mask_id: int) -> Tensor:
        """Ids that the slots hold, (B, K), when the tokens are `ids_BK`."""
        return torch.where(self.is_mask, mask_id, ids_BK[:, self.source])


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)  # kept for training too, whoever asks first
def pack(schedule: Schedule, device: torch.device | None = None) -> Packing:
    """The packed pass of a schedule."""
    sizes = schedule.block_sizes
    stage_K = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    start_S = torch.tensor([0, *schedule.endpoints[:-1]])
    before_S = torch.tensor([0, *sizes[:-1]])
    slot_K = torch.arange(schedule.num_tokens) - start_S[stage_K]
    is_mask_K = slot_K >= before_S[stage_K]
    position_K = start_S[stage_K] - before_S[stage_K] + slot_K

    is_earlier_KK = stage_K[None, :] <= stage_K[:, None]
    is_same_KK = stage_K[None, :] == stage_K[:, None]
    mask_KK = torch.where(is_mask_K, is_mask_K[:, None] & is_same_KK, is_earlier_KK)
    weights_K = 1 / (len(sizes) * torch.tensor(sizes)[stage_K])

    stages = []
    for start, end in pairwise((0, *schedule.endpoints)):
        is_seen_K = ~is_mask_K
        is_seen_K[start:end] = True
        mask_GS = mask_KK[start:end, :end][:, is_seen_K[:end]]
        num_kept = int((~is_mask_K[start:end]).sum())
        stage_mask = None if mask_GS.all() else mask_GS.to(device)
        stages.append(Stage(position_K[start:end].to(device), stage_mask, num_kept))
    return Packing(
        source=torch.where(is_mask_K, 0, position_K).to(device),
        is_mask=is_mask_K.to(device),
        positions=position_K.to(device),
        mask=mask_KK.to(device),
        weights=weights_K.to(device),
        stages=tuple(stages),
    )


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def pack_shifted(schedule: Schedule, device: torch.device | None = None) -> Packing:
    """Plain teacher forcing after one leading mask, as co-training does it.

    The slots hold MASK, T_1 .. T_{K-1} at successive positions and are causal; the mask stays
    visible. Generation is trained token by token: in a schedule with larger blocks all slots of a
    stage have the position of its call.
    """
    slot_K = torch.arange(schedule.num_tokens, device=device)
    return Packing(
        source=(slot_K - 1).clamp(min=0),
        is_mask=slot_K == 0,
        positions=slot_K,
        mask=torch.ones(len(slot_K), len(slot_K), dtype=torch.bool, device=device).tril(),
        weights=torch.full((len(slot_K),), 1 / len(slot_K), device=device),
        stages=tuple(
            Stage(torch.full((size,), call, device=device), None, 1)
            for call, size in enumerate(schedule.block_sizes)
        ),
    )
