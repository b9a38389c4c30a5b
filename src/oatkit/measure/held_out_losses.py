"""The losses of a policy's heads on held-out chunks, in blocks that processes can share.

Shape letters: B chunk, N chunk of a block, K token slot, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy
from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule, targets
from oatkit.policies.generation.token_generation import entropy_bits
from oatkit.policies.observation.observations import Observations
from oatkit.types import PolicySlot, Schedule, Tokens

Compute = Callable[[int], Tensor]
NUM_LOSSES, NUM_MEASURES = 2, 3


@dataclass(frozen=True)
class HeldOutLosses:
    """The parts of the training loss on held-out chunks.

    Attributes:
        tokens: Loss of the tokens; 0 where there is no token head.
        flow: Loss of the flow, with the same times and noise in every call; 0 without an expert.
        slots: How well each token slot is predicted that some sequence reaches.
    """

    tokens: float = 0.0
    flow: float = 0.0
    slots: tuple[PolicySlot, ...] = ()


def in_this_process(compute: Compute, count: int) -> list[Tensor]:
    """The results for all numbers below `count`."""
    return [compute(number) for number in range(count)]


@dataclass(frozen=True)
class _Chunks:
    """Held-out chunks and what they are measured by.

    Attributes:
        policy: Policy that is measured.
        observations: What is observed, in blocks.
        tokens: True tokens (B, K), which are also what earlier blocks of a schedule see.
        schedule: Schedule that the tokens fit.
        wanted: Ids (B, K) to predict.
        actions: True chunks (B, T, A), raw units.
        is_pad: Which of their steps (B, T) lie past the end of an episode.
    """

    policy: Policy
    observations: list[Observations]
    tokens: Tokens
    schedule: Schedule
    wanted: Tensor
    actions: Tensor
    is_pad: Tensor

    def measure(self, number: int) -> Tensor:
        """Two losses and three measures of every slot of a block, (N, 2 + 3 K).

        The losses stand in all rows. Rows that the last block lacks are 0, so that all blocks have
        one shape. The context is encoded once for both heads.
        """
        policy, most = self.policy, self.policy.rows_at_once
        block = self.observations[number].to(policy.device)
        part = slice(number * most, number * most + len(block))
        found_NX = torch.zeros(most, NUM_LOSSES + NUM_MEASURES * self.wanted.shape[1])
        found_NX = found_NX.to(policy.device)
        context = policy.net.encode(block) if "flow" in policy.heads else None
        if "tokens" in policy.heads:
            own = Tokens(
                self.tokens.ids[part].to(policy.device), self.tokens.lengths[part].to(policy.device)
            )
            if context is None:
                logits_NKV = policy.logits(block, own.ids, self.schedule)
            else:
                logits_NKV = policy.net.logits(own.ids, self.schedule, context)
            found_NX[:, 0] = blockwise_loss(logits_NKV, own, self.schedule, policy.net.end_id)
            measures = _measure_slots(logits_NKV, self.wanted[part].to(policy.device))
            found_NX[: len(block), NUM_LOSSES:] = torch.cat(measures, dim=1)
        if context is not None:
            keys = sample_keys(0, number, torch.arange(len(block))).to(policy.device)
            actions_NTA, is_pad_NT = (
                whole[part].to(policy.device) for whole in (self.actions, self.is_pad)
            )
            found_NX[:, 1] = policy.flow_loss(
                block, actions_NTA, SampleRandom(keys), is_pad_NT, context
            )
        return found_NX


@torch.no_grad()
def measure_losses(
    policy: Policy,
    observations: Observations,
    tokens: Tokens,
    actions_BTA: Tensor,
    is_pad_BT: NDArray[np.bool_] | None = None,
    spread: Callable[[Compute, int], list[Tensor]] = in_this_process,
) -> HeldOutLosses:
    """The losses of the policy's heads.

    Args:
        policy: Policy to measure.
        observations: Held-out observations.
        tokens: True tokens of what followed them.
        actions_BTA: True chunks that followed them, raw units.
        is_pad_BT: Which of their steps lie past the end of an episode; none if None.
        spread: Function that computes the blocks, see `TrainingJob.evaluate`.
    """
    schedule, counts_BK = policy.schedule, torch.zeros(len(observations), 0)
    wanted_BK = torch.zeros(len(observations), 0, dtype=torch.int64)
    if "tokens" in policy.heads:
        tokens, schedule = fit_to_schedule(tokens, schedule, policy.net.end_id)
        wanted_BK, counts_BK = targets(tokens, schedule.num_tokens, policy.net.end_id)
    blocks = list(observations.split(policy.rows_at_once))
    is_pad = torch.zeros(actions_BTA.shape[:2], dtype=torch.bool)
    if is_pad_BT is not None:
        is_pad = torch.from_numpy(is_pad_BT)
    chunks = _Chunks(policy, blocks, tokens, schedule, wanted_BK, actions_BTA, is_pad)
    found = [values_NX.cpu() for values_NX in spread(chunks.measure, len(blocks))]
    token_loss, flow_loss = (
        sum(len(block) * float(one[0, which]) for block, one in zip(blocks, found, strict=True))
        for which in range(NUM_LOSSES)
    )
    rows_BX = torch.cat(found)[: len(observations), NUM_LOSSES:]
    slots = _mean_slots(torch.stack(rows_BX.chunk(NUM_MEASURES, dim=1)), counts_BK)
    count = len(observations)
    return HeldOutLosses(token_loss / count, flow_loss / count, slots)


def losses_to_log(
    policy: Policy,
    observations: Observations,
    tokens: Tokens,
    actions_BTA: Tensor,
    is_pad_BT: NDArray[np.bool_] | None,
    spread: Callable[[Compute, int], list[Tensor]] = in_this_process,
) -> dict[str, float]:
    """Loss and token accuracy, and the flow loss, by their names in the log; see
    `measure_losses`."""
    losses = measure_losses(policy, observations, tokens, actions_BTA, is_pad_BT, spread)
    found: dict[str, float] = {}
    if "tokens" in policy.heads:
        reached = sum(slot.share for slot in losses.slots)
        accuracy = sum(slot.share * slot.accuracy for slot in losses.slots) / reached
        found |= {"val_loss": losses.tokens, "val_accuracy": accuracy}
    if "flow" in policy.heads:
        found["val_flow_loss"] = losses.flow
    return found


def _measure_slots(logits_NKV: Tensor, wanted_NK: Tensor) -> list[Tensor]:
    """Whether each slot is right, the entropy of its prediction and its surprise in bits."""
    surprise_NK = F.cross_entropy(logits_NKV.transpose(1, 2), wanted_NK, reduction="none")
    is_right_NK = (logits_NKV.argmax(dim=-1) == wanted_NK).float()
    return [is_right_NK, entropy_bits(logits_NKV), surprise_NK / math.log(2)]


def _mean_slots(numbers_3BK: Tensor, counts_BK: Tensor) -> tuple[PolicySlot, ...]:
    """Means over the sequences that reach a slot."""
    reached_K = counts_BK.sum(dim=0)
    means_3K = (numbers_3BK * counts_BK).sum(dim=1) / reached_K.clamp(min=1)
    return tuple(
        PolicySlot(int(reached) / len(counts_BK), *means.tolist())
        for reached, means in zip(reached_K, means_3K.T, strict=True)
        if reached > 0
    )
