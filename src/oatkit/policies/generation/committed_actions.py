"""Tokens that go on from actions which are already decided: real-time chunking for tokens.

    committed      c c c             executed before the new chunk can act
    new chunk      a a a a a a a a   the same moments first, so a must agree with c there

Tokens are not actions, so nothing of a chunk can be held fixed while the rest is generated. But
every prefix of the tokens decodes, so each token is chosen by how likely the network finds it and
by how near the chunk of the tokens so far comes to the committed actions:

    score of an id = logit - |decoded - committed|^2 / (2 WIDTH^2)

which is Bayes' rule for committed actions that lie `WIDTH` around decoded ones. Only the first
tokens, which hold most of a chunk, are chosen so: the later ones follow from them, and decoding all
candidates takes time. To encode the committed actions and prefer their codes would be cheaper, but
a tokenizer encodes whole chunks, and whatever followed would be part of every code.

Shape letters: B batch, N row that is generated (draw after draw), K token slot, G slot of a stage,
V vocabulary, C candidate id, M candidates of all rows, P committed step, T step in the chunk,
A action dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Sampling, Tokens

if TYPE_CHECKING:
    from oatkit.policies.policy import Policy

NUM_SLOTS = 4
"""Number of first tokens that are chosen by committed actions."""
NUM_CANDIDATES = 16
"""Number of likeliest ids of a slot that are decoded; one of them is chosen."""
WIDTH = 0.5
"""Standard deviation of committed actions around decoded ones, normalized units, in which the data
span about 2. Much less, such as what tokens leave of an action, brings chunks hardly nearer, and
what the network finds likely of their other steps then counts for little."""


@dataclass(frozen=True, eq=False)
class CommittedActions:
    """Actions that the first steps of chunks have to agree with.

    Attributes:
        tokenizer: Decodes the candidates.
        actions: (N, P, A) the committed actions as the tokenizer codes them, normalized units.
        budget: Largest number of tokens that a chunk will be decoded from; those after it are not
            chosen by the committed actions.
    """

    tokenizer: ActionTokenizer
    actions: Tensor
    budget: int

    def choose(
        self, ids_NK: Tensor, logits_NGV: Tensor, uniform_NG: Tensor, sampling: Sampling
    ) -> Tensor:
        """Ids of a stage, (N, G), chosen slot by slot.

        The slots after the one that is chosen hold what they would without committed actions, so
        that a stage is decoded as a whole, as the tokenizer was trained, whatever the budget: a
        smaller one gives a prefix of what a larger one does.

        Args:
            ids_NK: Ids of the stages before.
            logits_NGV: Logits of the stage.
            uniform_NG: Random numbers in [0, 1).
            sampling: Rules by which ids are chosen, here by their scores.
        """
        block_NG = sampling.choose(logits_NGV, uniform_NG)
        num_candidates = min(NUM_CANDIDATES, logits_NGV.shape[-1])
        num_left = min(NUM_SLOTS, self.budget) - ids_NK.shape[1]
        for slot in range(min(block_NG.shape[1], num_left)):
            logits_NC, candidates_NC = logits_NGV[:, slot].float().topk(num_candidates, dim=-1)
            tried_NCG = block_NG[:, None].repeat(1, num_candidates, 1)
            tried_NCG[..., slot] = candidates_NC
            before_NCK = ids_NK[:, None].expand(-1, num_candidates, -1)
            score_NC = logits_NC - self._misfit(torch.cat([before_NCK, tried_NCG], dim=-1))
            place_N1 = sampling.choose(score_NC[:, None], uniform_NG[:, slot : slot + 1])
            block_NG[:, slot] = candidates_NC.gather(1, place_N1)[:, 0]
        return block_NG

    def _misfit(self, ids_NCK: Tensor) -> Tensor:
        """How unlikely the committed actions are after each sequence, (N, C) in nats."""
        tokens = Tokens.full(ids_NCK.flatten(0, 1))
        chunks_MTA = self.tokenizer.decode_normalized(tokens)
        decoded_NCTA = chunks_MTA.reshape(*ids_NCK.shape[:2], *chunks_MTA.shape[1:])
        away_NCPA = decoded_NCTA[:, :, : self.actions.shape[1]] - self.actions[:, None]
        return away_NCPA.square().sum(dim=(2, 3)) / (2 * WIDTH**2)


def can_commit(tokenizer: ActionTokenizer) -> bool:
    """Whether tokens can be chosen by committed actions: every prefix of them is a chunk."""
    return can_stop_early(tokenizer) and tokenizer.is_total


def takes_committed(policy: Policy) -> bool:
    """Whether a policy, by the head that acts, takes committed actions."""
    return policy.head == "tokens" and can_commit(policy.tokenizer)


def require_prefixes(tokenizer: ActionTokenizer) -> None:
    """Raise where tokens cannot be chosen by committed actions."""
    if not can_commit(tokenizer):
        raise ValueError(
            f"{tokenizer.kind} decodes only all of its tokens: committed actions are for kinds "
            "whose prefixes decode, such as oat"
        )


def read_committed(
    tokenizer: ActionTokenizer, given: Any, batch_size: int, state_BS: Tensor | None
) -> Tensor:
    """Committed actions as the tokenizer codes them, (B, P, A).

    Args:
        tokenizer: Tokenizer of the policy.
        given: (B, P, A), or (P, A) for every row, raw units.
        batch_size: Number of rows.
        state_BS: Raw state at which chunks start, where actions are relative to it.
    """
    actions = torch.as_tensor(given, dtype=torch.float32)
    horizon, dim = tokenizer.horizon, tokenizer.action_dim
    has_rows = actions.ndim == 2 or (actions.ndim == 3 and len(actions) == batch_size)
    if not has_rows or actions.shape[-1] != dim or actions.shape[-2] > horizon:
        raise ValueError(
            f"committed is {tuple(actions.shape)}, expected (steps, {dim}) or ({batch_size}, "
            f"steps, {dim}), and at most {horizon} steps"
        )
    if not torch.isfinite(actions).all():
        raise ValueError("committed is not finite")
    num_steps = actions.shape[-2]
    actions_BPA = actions.expand(batch_size, -1, -1)
    if tokenizer.normalized_input:
        return actions_BPA
    # a representation may be of whole chunks; a step of it depends on those before at most
    later_BTA = actions_BPA[:, -1:].expand(-1, horizon - num_steps, -1)
    chunks_BTA = torch.cat([actions_BPA, later_BTA], dim=1)
    return tokenizer.normalizer.normalize(chunks_BTA, state_BS)[:, :num_steps]
