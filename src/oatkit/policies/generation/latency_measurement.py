"""How long a policy takes here, measured with blank observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.nn.device import read_clock
from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.policies.generation.committed_actions import CommittedActions
from oatkit.policies.generation.deadline import Latency
from oatkit.policies.generation.early_stop import AutoThresholds, StageCosts
from oatkit.policies.generation.token_generation import ChunkDecoder, Correct, generate_stages
from oatkit.policies.generation.token_net import TokenNet
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Schedule, Tokens

REPEATS = 5
COST_REPEATS = 20
"""Repeats for what is kept in an artifact, and not measured anew by who opens it."""


@torch.inference_mode()
def measure_latency(
    net: TokenNet,
    tokenizer: ActionTokenizer,
    schedule: Schedule,
    observations: Observations,
    correct: Correct | None = None,
    *,
    is_committed: bool = False,
) -> Latency:
    """Median time of every stage and of decoding, for a batch of this size.

    Where actions are committed, decoding the candidates is part of a stage.
    """
    batch = observations.to(net.device)

    def after_stage(_: Sequence[Tensor]) -> list[float]:
        return [read_clock(net.device)]

    rows = [
        _time_parts(net, tokenizer, schedule, batch, after_stage, correct, is_committed)
        for _ in range(REPEATS + 1)  # the first warms up
    ]
    median = (1000 * np.median(rows[1:], axis=0)).tolist()
    return Latency(tuple(median[:-1]), median[-1])


@torch.inference_mode()
def measure_costs(
    net: TokenNet,
    tokenizer: ActionTokenizer,
    schedule: Schedule,
    observations: Observations,
    correct: Correct | None = None,
) -> StageCosts:
    """Median time until each stage, and of all tokens, from the encoded observation to the chunk.

    The two are measured in turns, so that a machine that is slow for a while slows both.
    """
    batch = observations.to(net.device)
    never = AutoThresholds(schedule.endpoints, (-1.0,) * schedule.calls)

    def look(entropies: Sequence[Tensor]) -> list[float]:
        is_done_B = never.stops(entropies)
        assert is_done_B is not None
        assert not is_done_B.all()
        return [read_clock(net.device)]

    def go_on(_: Sequence[Tensor]) -> list[float]:
        return []

    rows = [
        [_time_parts(net, tokenizer, schedule, batch, each, correct) for each in (look, go_on)]
        for _ in range(COST_REPEATS + 1)  # the first warms up
    ]
    looking, going = zip(*rows[1:], strict=True)
    *stages_ms, decode_ms = 1000 * np.median(looking, axis=0)
    return StageCosts(np.cumsum(stages_ms) + decode_ms, float(1000 * np.median(going)))


def _time_parts(
    net: TokenNet,
    tokenizer: ActionTokenizer,
    schedule: Schedule,
    batch: Observations,
    after_stage: Callable[[Sequence[Tensor]], list[float]],
    correct: Correct | None,
    is_committed: bool = False,
) -> NDArray[np.float64]:
    """Seconds between the start of the first stage, the moments that `after_stage` gives and the
    end of decoding."""
    num_rows, stages = len(batch), net.pack(schedule, net.device).stages
    context = net.encode(batch)
    generation = net.start(context, num_rows, schedule.num_tokens)
    uniform_BK = torch.rand(num_rows, schedule.num_tokens, device=net.device)
    committed = None
    if is_committed:
        one_step_BPA = torch.zeros(num_rows, 1, tokenizer.coded_shape[1], device=net.device)
        committed = CommittedActions(tokenizer, one_step_BPA, schedule.num_tokens)
    times, ids, entropies = [read_clock(net.device)], [], []
    for stage in generate_stages(
        generation, stages, uniform_BK, mask_id=net.mask_id, committed=committed
    ):
        ids.append(stage.ids)
        entropies.append(stage.entropy_bits)
        times += after_stage(entropies)
    if can_stop_early(tokenizer):  # otherwise nobody asks how long decoding takes
        transform = tokenizer.normalizer.transform
        state_NS = None
        if transform is not None:  # numbers that are a rotation in every form
            state_NS = torch.arange(1.0, transform.state_dim + 1).repeat(num_rows, 1)
        tokens = replace(Tokens.full(torch.cat(ids, dim=1)), state=state_NS)
        ChunkDecoder(tokenizer, correct, context).decode(tokens)
    times.append(read_clock(net.device))
    return np.diff(times)
