"""Block-wise autoregression: a schedule as one packed pass, its loss, sampling and generation.

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

Shape letters: B batch, K packed slot, G slot of a stage, S slot that is seen, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.types import Sampling, Schedule, Tokens

Generators = torch.Generator | Sequence[torch.Generator] | None
"""One for the batch, one for each row (a row then draws the same in any batch), or torch's own."""


@dataclass(frozen=True, eq=False)
class Stage:
    """What one call of cached generation feeds: the block before, then masks.

    Attributes:
        positions: (G,) index of each slot in X^(s).
        mask: (G, S) bool over all kept slots and these; None where every slot sees all.
        num_kept: Leading slots whose keys and values stay; those of the masks are dropped.
    """

    positions: Tensor
    mask: Tensor | None
    num_kept: int


@dataclass(frozen=True, eq=False)
class Packing:
    """All stages of a schedule in one pass.

    Attributes:
        source: (K,) which token a slot holds; 0 where it holds a mask.
        is_mask: (K,) bool.
        positions: (K,) index of each slot in its X^(s).
        mask: (K, K) bool, which slot (row) sees which (column).
        weights: (K,) 1 / (S g_s): the mean in a block, then over stages.
        stages: The same in parts, for cached generation.
    """

    source: Tensor
    is_mask: Tensor
    positions: Tensor
    mask: Tensor
    weights: Tensor
    stages: tuple[Stage, ...]

    def inputs(self, ids_BK: Tensor, mask_id: int) -> Tensor:
        """(B, K): what the slots hold when the tokens are `ids_BK`."""
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
def pack_shifted(num_tokens: int, device: torch.device | None = None) -> Packing:
    """Plain teacher forcing after one leading mask, as co-training has it.

    MASK, T_1 .. T_{K-1} at successive positions, causal; the mask stays visible.
    """
    slot_K = torch.arange(num_tokens, device=device)
    return Packing(
        source=(slot_K - 1).clamp(min=0),
        is_mask=slot_K == 0,
        positions=slot_K,
        mask=torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(),
        weights=torch.full((num_tokens,), 1 / num_tokens, device=device),
        stages=tuple(Stage(slot_K[k : k + 1], None, 1) for k in range(num_tokens)),
    )


def covering(schedule: Schedule, num_tokens: int) -> Schedule:
    """The first stages of a schedule, as many as `num_tokens` need."""
    return Schedule(schedule.endpoints[: schedule.calls_for(num_tokens)])


def targets(tokens: Tokens, num_slots: int, end_id: int | None) -> tuple[Tensor, Tensor]:
    """What each slot should predict, (B, K), and whether it counts, (B, K) bool.

    Args:
        tokens: Of any length up to `num_slots`.
        num_slots: K.
        end_id: Predicted after a row's last token, if there is a slot left; None where all rows
            are of full length.
    """
    ids_BK = F.pad(tokens.ids, (0, num_slots - tokens.ids.shape[1]))
    slot_K = torch.arange(num_slots, device=ids_BK.device)
    if end_id is None:
        return ids_BK, torch.ones_like(ids_BK, dtype=torch.bool)
    end_B1 = tokens.lengths[:, None]
    return torch.where(slot_K == end_B1, end_id, ids_BK), slot_K <= end_B1


def fitted(tokens: Tokens, schedule: Schedule, end_id: int | None) -> tuple[Tokens, Schedule]:
    """Tokens as wide as the schedule; with an end symbol only the stages that some row reaches."""
    if end_id is not None:  # slots past every row's end cost time and teach nothing
        longest = int(tokens.lengths.max()) + 1
        schedule = covering(schedule, min(longest, schedule.num_tokens))
    # cut, or padded with 0
    ids_BK = F.pad(tokens.ids, (0, schedule.num_tokens - tokens.ids.shape[1]))
    return Tokens(ids_BK, tokens.lengths), schedule


def bar_loss(logits_BKV: Tensor, tokens: Tokens, schedule: Schedule, end_id: int | None) -> Tensor:
    """The paper's loss of a packed pass: the mean in each block, then over stages, then over rows.

    With an end symbol: the mean over a row's own length and the end slot, then over rows.
    """
    wanted_BK, counts_BK = targets(tokens, schedule.num_tokens, end_id)
    loss_BK = F.cross_entropy(logits_BKV.flatten(0, 1), wanted_BK.flatten(), reduction="none")
    loss_BK = loss_BK.view_as(wanted_BK)
    if end_id is None:
        return (loss_BK * pack(schedule, loss_BK.device).weights).sum(dim=1).mean()
    return ((loss_BK * counts_BK).sum(dim=1) / counts_BK.sum(dim=1)).mean()


def entropy_bits(logits_BGV: Tensor) -> Tensor:
    """(B, G): how uncertain the model is about each token, before sampling rules."""
    log_BGV = logits_BGV.float().log_softmax(dim=-1)
    return (log_BGV.exp() * log_BGV).sum(dim=-1) * (-1 / math.log(2))


def uniforms(generators: Generators, batch_size: int, num_slots: int) -> Tensor:
    """(B, K) in [0, 1): the random numbers of a whole generation, so that budgets nest."""
    if generators is None or isinstance(generators, torch.Generator):
        return torch.rand(batch_size, num_slots, generator=generators)
    if len(generators) != batch_size:
        raise ValueError(f"there are {len(generators)} generators for {batch_size} rows")
    return torch.stack([torch.rand(num_slots, generator=generator) for generator in generators])


class Feed(Protocol):
    """A model with a cache: feeds a stage and keeps its first `stage.num_kept` slots."""

    def __call__(self, inputs_BG: Tensor, stage: Stage) -> Tensor:
        """Logits (B, G, V)."""


@dataclass(frozen=True, eq=False)
class Generated:
    """What one stage gave: ids and entropies, (B, G)."""

    ids: Tensor
    entropy_bits: Tensor


def generate(
    feed: Feed,
    schedule: Schedule,
    uniform_BK: Tensor,
    *,
    mask_id: int,
    end_id: int | None = None,
    sampling: Sampling = Sampling(),
) -> Iterator[Generated]:
    """Stage after stage, each computed only when it is asked for.

    Ends after the last stage, or once every row has its end symbol.

    Args:
        feed: The model, its cache empty.
        schedule: In which blocks.
        uniform_BK: See `uniforms`; its device is where ids are.
        mask_id: The input that stands for MASK.
        end_id: The id that ends a row, where lengths vary.
        sampling: How ids are chosen.
    """
    batch_size = len(uniform_BK)
    block_BG = torch.empty(batch_size, 0, dtype=torch.int64, device=uniform_BK.device)
    has_ended_B = torch.zeros(batch_size, dtype=torch.bool, device=uniform_BK.device)
    stages = pack(schedule, uniform_BK.device).stages
    for stage, (start, end) in zip(stages, pairwise((0, *schedule.endpoints)), strict=True):
        inputs_BG = F.pad(block_BG, (0, end - start - stage.num_kept), value=mask_id)
        logits_BGV = feed(inputs_BG, stage)
        block_BG = sampling.choose(logits_BGV, uniform_BK[:, start:end])
        yield Generated(block_BG, entropy_bits(logits_BGV))
        if end_id is not None:
            has_ended_B |= (block_BG == end_id).any(dim=1)
            if has_ended_B.all():
                return


def ended(ids_BK: Tensor, end_id: int | None) -> Tokens:
    """Tokens up to, and without, the end symbol of each row."""
    if end_id is None:
        return Tokens.full(ids_BK)
    is_kept_BK = (ids_BK == end_id).cumsum(dim=1) == 0
    return Tokens(ids_BK * is_kept_BK, is_kept_BK.sum(dim=1))
