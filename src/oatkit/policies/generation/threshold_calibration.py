"""Finds the thresholds of `budget="auto"` by generating all tokens of held-out observations.

What stopping costs is measured in one of two ways:

tokens alone            how far the chunk is from that of all tokens
corrected by a network  how much more it errs than that of all tokens, the likeliest of each

Chunks that a network corrects may be as good as can be long before the last token, however much the
further tokens move them. Sampled tokens would hide that: the more of them, the more they err.

Shape letters: B batch, S stage, K token slot, T step in the chunk, A action dimension.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.policies.generation.early_stop import (
    ERROR_MARGIN,
    MARGIN,
    AutoThresholds,
    find_thresholds,
)
from oatkit.policies.generation.latency_measurement import measure_costs
from oatkit.policies.generation.random_rows import Generators, random_rows
from oatkit.policies.generation.token_generation import ChunkDecoder, Correct, generate_stages
from oatkit.policies.generation.token_net import TokenNet
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Sampling, Schedule, Tokens


@torch.inference_mode()
def calibrate_thresholds(
    net: TokenNet,
    tokenizer: ActionTokenizer,
    schedule: Schedule,
    observations: Observations,
    actions_BTA: Tensor,
    *,
    generator: Generators = None,
    rows_at_once: int,
    margin: float | None = None,
    state_BS: Tensor | None = None,
    correct: Correct | None = None,
) -> AutoThresholds | None:
    """Thresholds from held-out observations; None where generation cannot stop early.

    They are the fastest on this machine, for one observation at a time.

    Args:
        net: Generates the tokens.
        tokenizer: Decodes them.
        schedule: Blocks in which they are generated.
        observations: Held-out observations.
        actions_BTA: Raw actions that follow them.
        generator: Random numbers of the ids.
        rows_at_once: Number of observations that fit in memory together.
        margin: Largest mean excess, as a share of the tokenizer's own error, `MARGIN` by default;
            of corrected chunks as a share of the error with all tokens, `ERROR_MARGIN` by default.
        state_BS: Raw states at which the chunks start, where actions are relative to them.
        correct: What the network does to decoded chunks; nothing by default.
    """
    if not can_stop_early(tokenizer):
        return None
    # float32, because MPS has no float64
    scale_A = torch.tensor(tokenizer.raw_normalizer.scale, dtype=torch.float32, device=net.device)
    shape = (len(observations), schedule.num_tokens)
    uniform_BK = random_rows(torch.rand, generator, *shape).to(net.device)
    blocks = observations.split(rows_at_once)
    states = [None] * len(blocks) if state_BS is None else torch.split(state_BS, rows_at_once)
    rows = zip(blocks, torch.split(uniform_BK, rows_at_once), states, strict=True)
    found = [_stages(net, tokenizer, schedule, *row, correct) for row in rows]
    entropy_BS, chunk_BSTA = (torch.cat(parts) for parts in zip(*found, strict=True))
    wanted_BTA = actions_BTA.to(net.device)
    if correct is None:
        excess_BS = squared_distance(chunk_BSTA, chunk_BSTA[:, -1:], scale_A)
        coded_BTA = tokenizer.decode(tokenizer.encode(wanted_BTA, state_BS))
        lost = float(squared_distance(coded_BTA, wanted_BTA, scale_A).mean())
    else:
        error_BS = ((chunk_BSTA - wanted_BTA[:, None]) / scale_A).abs().mean(dim=(-2, -1))
        excess_BS = error_BS - error_BS[:, -1:]
        lost = float(error_BS[:, -1].mean())
    first = next(iter(observations.split(1)))
    costs = measure_costs(net, tokenizer, schedule, first, correct)
    if margin is None:
        margin = MARGIN if correct is None else ERROR_MARGIN
    entropies, excesses = (x.cpu().double().numpy() for x in (entropy_BS, excess_BS))
    return find_thresholds(schedule.endpoints, entropies, excesses, costs, margin * lost)


def squared_distance(one_TA: Tensor, other_TA: Tensor, scale_A: Tensor) -> Tensor:
    """Mean squared difference of raw chunks (..., T, A) in normalized units, (...)."""
    return ((one_TA - other_TA) / scale_A).square().mean(dim=(-2, -1))


def _stages(
    net: TokenNet,
    tokenizer: ActionTokenizer,
    schedule: Schedule,
    observations: Observations,
    uniform_BK: Tensor,
    state_BS: Tensor | None,
    correct: Correct | None,
) -> tuple[Tensor, Tensor]:
    """After each stage the mean entropy so far, (B, S), and the chunk, (B, S, T, A)."""
    context = net.encode(observations.to(net.device))
    generation = net.start(context, len(observations), schedule.num_tokens)
    stages = net.pack(schedule, net.device).stages
    ids: list[Tensor] = []
    entropies: list[Tensor] = []
    means, chunks = [], []
    sampling = Sampling(temperature=1.0 if correct is None else 0.0)
    for stage in generate_stages(
        generation, stages, uniform_BK, mask_id=net.mask_id, sampling=sampling
    ):
        ids.append(stage.ids)
        entropies.append(stage.entropy_bits)
        means.append(torch.cat(entropies, dim=1).mean(dim=1))
        tokens = replace(Tokens.full(torch.cat(ids, dim=1)), state=state_BS)
        chunks.append(ChunkDecoder(tokenizer, correct, context).decode(tokens)[0])
    return torch.stack(means, dim=1), torch.stack(chunks, dim=1)
