"""What the offset head of a light policy learns from.

It corrects chunks as it will meet them: decoded from any trained budget, half of them from true
tokens and half from tokens that the network itself would choose, so that it learns to mend both
what tokens cannot say and what the network gets wrong.

Shape letters: B batch, K token slot, V symbol, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom
from oatkit.policies.light.light_net import LightContext, LightNet
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Sampling, Tokens

TRUE_SHARE = 0.5
"""Share of the samples whose chunks are decoded from true tokens."""


def offset_loss(
    net: LightNet,
    context: LightContext,
    chunks_BTA: Tensor,
    tokens: Tokens,
    actions_BTA: Tensor,
    random: SampleRandom | None = None,
) -> Tensor:
    """Mean absolute error of corrected chunks, a scalar.

    Args:
        net: Network with an offset head.
        context: Context of the batch.
        chunks_BTA: What the tokens decode to, normalized.
        tokens: Tokens that the chunks were decoded from.
        actions_BTA: True actions, normalized.
        random: Random numbers of dropout; None drops nothing.
    """
    assert net.offset is not None
    corrected_BTA = net.offset(chunks_BTA, tokens.lengths, context.encoded, random)
    return F.l1_loss(corrected_BTA, actions_BTA)


def corrects_prefixes(tokenizer: ActionTokenizer) -> bool:
    """Whether the head learns from prefixes and from tokens that the network chooses: any ids are
    a chunk, and all chunks have as many."""
    return tokenizer.is_total and tokenizer.is_fixed_length


@torch.no_grad()
def tokens_to_correct(
    tokenizer: ActionTokenizer, logits_BKV: Tensor, tokens: Tokens, random: SampleRandom
) -> Tokens:
    """Tokens of which the head learns to correct the chunks.

    Kinds whose sequences may not decode, or vary in length, keep the true tokens.

    Args:
        tokenizer: The tokenizer.
        logits_BKV: Logits of a packed pass over the true tokens.
        tokens: True tokens.
        random: Random numbers of the samples.
    """
    if not corrects_prefixes(tokenizer):
        return tokens
    num_slots = logits_BKV.shape[1]
    chosen_BK = Sampling().choose(logits_BKV, random.uniform(num_slots))
    is_true_B1 = random.uniform(1) < TRUE_SHARE
    ids_BK = torch.where(is_true_B1, tokens.ids[:, :num_slots], chosen_BK)
    budgets = [budget for budget in tokenizer.budgets if budget <= num_slots]
    return Tokens(ids_BK, random.choose(budgets))
