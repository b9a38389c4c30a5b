"""Integrates the velocity of a flow expert: what all Euler steps share is computed once.

    context, once: cast, room for action slots, mask ──┐
    times of all steps, once: changes of the norms ────┴── velocity ── step ── chunk
                                                              ^──────────┘

Shape letters: B batch, T action slot, S context slot, H head, C head width, A action, E changes of
a norm.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.flow import euler_times, integrate
from oatkit.nn.flow_expert import FlowExpert, Memory


class ActingMemory:
    """The context as the expert reads it when it acts: in the type of its computations, with room
    for the keys and values of the action slots, which every layer of every step overwrites.

    Args:
        like: A context of the same batch size and heads.
        num_context: Number of context slots that there is room for.
        dtype: Type in which the expert computes.

    Attributes:
        pairs: Keys and values (B, H, S + T, C), one pair for each layer of the expert.
        rotary: Cosines and sines (B, T, C) of the positions of the action slots.
    """

    def __init__(self, like: Memory, num_context: int, dtype: torch.dtype) -> None:
        num_slots = num_context + like.rotary[0].shape[1]
        self.pairs = [
            (_room(keys, num_slots, dtype), _room(values, num_slots, dtype))
            for keys, values in like.pairs
        ]
        self.rotary = (
            torch.empty_like(like.rotary[0], dtype=dtype),
            torch.empty_like(like.rotary[1], dtype=dtype),
        )
        self._num_context = num_context
        self._mask_B11S = torch.zeros(
            len(like.is_seen), 1, 1, num_slots, dtype=dtype, device=like.is_seen.device
        )

    def fill(self, memory: Memory) -> None:
        """Take in a context, of at most as many slots as there is room for."""
        count = memory.is_seen.shape[1]
        for own, given in zip(self.pairs, memory.pairs, strict=True):
            for room, part in zip(own, given, strict=True):
                room[:, :, :count] = part
        for room, part in zip(self.rotary, memory.rotary, strict=True):
            room.copy_(part)
        context_B11S = self._mask_B11S[..., : self._num_context]
        context_B11S.fill_(-torch.inf)
        context_B11S[..., :count].masked_fill_(memory.is_seen[:, None, None], 0)

    def attend(
        self, pair: tuple[Tensor, Tensor], query_BHTC: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """What the action slots see (B, H, T, C), given the pair of their layer."""
        for room, own in zip(pair, (keys, values), strict=True):
            room[:, :, self._num_context :] = own
        # query heads that share a key head become slots of one head: no kernel repeats its keys
        batch_size, num_heads, _, width = keys.shape
        grouped = query_BHTC.reshape(batch_size, num_heads, -1, width)
        seen = F.scaled_dot_product_attention(grouped, *pair, attn_mask=self._mask_B11S)
        return seen.reshape(query_BHTC.shape)


@torch.no_grad()
def integrate_expert(
    expert: FlowExpert, noise_BTA: Tensor, memory: Memory, num_steps: int
) -> Tensor:
    """Chunks (B, T, A), reached from noise in Euler steps, without a gradient.

    Args:
        expert: Gives the velocities.
        noise_BTA: Points at time 1.
        memory: Context of the same batch.
        num_steps: Number of Euler steps.
    """
    room = ActingMemory(memory, memory.is_seen.shape[1], compute_dtype(expert))
    room.fill(memory)
    return follow(expert, noise_BTA, room, step_changes(expert, num_steps))


def step_changes(expert: FlowExpert, num_steps: int) -> list[list[Tensor]]:
    """What the time of each Euler step makes of the norms of the expert, (1, E) each."""
    times = torch.tensor(euler_times(num_steps), device=expert.into.weight.device)
    changes = expert.changes(times)
    return [[norm[step : step + 1] for norm in changes] for step in range(num_steps)]


def follow(
    expert: FlowExpert, noise_BTA: Tensor, memory: ActingMemory, changes: list[list[Tensor]]
) -> Tensor:
    """The Euler steps alone: fixed shapes, and nothing that depends on the numbers in a tensor."""
    return integrate(
        lambda point, step: expert.velocity(point, changes[step], memory), noise_BTA, len(changes)
    )


def compute_dtype(expert: FlowExpert) -> torch.dtype:
    """Type in which the expert computes: autocast's, or else that of its weights."""
    kind = expert.into.weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else expert.dtype


def _room(x_BHSC: Tensor, num_slots: int, dtype: torch.dtype) -> Tensor:
    """Zeros, which unlike what memory happens to hold stay zeros where attention masks them."""
    batch_size, num_heads, _, width = x_BHSC.shape
    return torch.zeros(batch_size, num_heads, num_slots, width, dtype=dtype, device=x_BHSC.device)
