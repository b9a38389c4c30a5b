"""Generates tokens stage by stage and decodes them; budgets, early stops and deadlines end it.

    random numbers ──┐
    network, cache ──┴── stage ── ids ──┬── next stage, or stop ── decode ── chunks
                           ^────────────┘

Shape letters: B batch, N those rows of it that are generated in this attempt (all, or those to
retry), K token slot, G slot of a stage, V vocabulary, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.decoder_backend import Generation
from oatkit.policies.generation.committed_actions import CommittedActions
from oatkit.policies.generation.deadline import Deadline
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.packing import Stage
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import STOP_REASONS, Sampling, Schedule, Tokens

ALL, BUDGET, AUTO, DEADLINE = range(len(STOP_REASONS))
"""Codes of the reasons why generation stopped."""


Correct = Callable[[Any, Tensor, Tensor], Tensor]
"""A correction by a network: it takes the context, normalized chunks (B, T, A) and the number of
tokens (B,) that each was decoded from, and gives normalized chunks."""


@dataclass(frozen=True, eq=False)
class ChunkDecoder:
    """Decodes the tokens of a context.

    Attributes:
        tokenizer: Tokenizer of the tokens.
        correct: What the network does to decoded chunks; nothing by default.
        context: Context of the rows, which `correct` reads.
    """

    tokenizer: ActionTokenizer
    correct: Correct | None = None
    context: Any = None

    def decode(self, tokens: Tokens) -> tuple[Tensor, dict[int, str]]:
        """Raw chunks (B, T, A), and the reason for each row that does not decode and is NaN."""
        correct, context = self.correct, self.context
        if correct is None:
            return self.tokenizer.decode_rows(tokens)
        return self.tokenizer.decode_rows(
            tokens, lambda chunk_BTA: correct(context, chunk_BTA, tokens.lengths)
        )


@dataclass(frozen=True)
class GenerationSettings:
    """How tokens are generated.

    Attributes:
        schedule: Blocks in which tokens are generated.
        budget: Largest number of tokens to decode.
        sampling: Rules by which ids are chosen.
        thresholds: Thresholds at which generation stops early; None to go on to the budget.
        deadline: Time at which the chunk must be there; None for no hurry.
        committed: Actions that chunks have to agree with; None where nothing is committed.
    """

    schedule: Schedule
    budget: int
    sampling: Sampling = Sampling()
    thresholds: AutoThresholds | None = None
    deadline: Deadline | None = None
    committed: CommittedActions | None = None


@dataclass(frozen=True, eq=False)
class GeneratedStage:
    """Result of one stage.

    Attributes:
        ids: (B, G) chosen ids.
        entropy_bits: (B, G) uncertainty of the network about each, before sampling rules.
    """

    ids: Tensor
    entropy_bits: Tensor


@dataclass(frozen=True, eq=False)
class GeneratedChunks:
    """Chunks, and what was generated for them.

    Attributes:
        chunk: (B, T, A) raw units; NaN where a sequence does not decode.
        tokens: All ids that were generated; the chunk is decoded from the first `lengths`.
        entropy_bits: (B, K) uncertainty of the network about each id, before sampling rules.
        calls: (B,) number of stages that were run.
        attempts: (B,) how often a sequence was generated until it decoded.
        undecodable: Reason for each row that does not decode.
        stopped: (B,) why generation stopped, as indices into `STOP_REASONS`.
    """

    chunk: Tensor
    tokens: Tokens
    entropy_bits: Tensor
    calls: Tensor
    attempts: Tensor
    undecodable: Mapping[int, str]
    stopped: Tensor

    def with_rows(self, rows_N: Tensor, new: GeneratedChunks) -> GeneratedChunks:
        """The same with another attempt in some rows."""
        num_slots = max(self.tokens.ids.shape[1], new.tokens.ids.shape[1])

        def put(old: Tensor, other: Tensor) -> Tensor:
            if old.ndim == 2:
                old, other = (F.pad(x, (0, num_slots - x.shape[1])) for x in (old, other))
            return old.index_copy(0, rows_N, other)

        lengths_B = put(self.tokens.lengths, new.tokens.lengths)
        return GeneratedChunks(
            put(self.chunk, new.chunk),
            Tokens(put(self.tokens.ids, new.tokens.ids), lengths_B, state=self.tokens.state),
            put(self.entropy_bits, new.entropy_bits),
            put(self.calls, new.calls),
            self.attempts.index_add(0, rows_N, new.attempts),
            {int(rows_N[row]): reason for row, reason in new.undecodable.items()},
            put(self.stopped, new.stopped),
        )


def entropy_bits(logits_BGV: Tensor) -> Tensor:
    """Uncertainty of the network about each token, (B, G), before sampling rules."""
    log_BGV = logits_BGV.float().log_softmax(dim=-1)
    return (log_BGV.exp() * log_BGV).sum(dim=-1) * (-1 / math.log(2))


def generate_stages(
    generation: Generation,
    stages: Sequence[Stage],
    uniform_BK: Tensor,
    *,
    mask_id: int,
    end_id: int | None = None,
    sampling: Sampling = Sampling(),
    committed: CommittedActions | None = None,
) -> Iterator[GeneratedStage]:
    """Stage after stage, each computed only when it is asked for.

    Ends after the last stage, or once every row has its end symbol.

    Args:
        generation: Stateful decoder with an empty key-value cache.
        stages: Stages to run, the first ones of a schedule.
        uniform_BK: One uniform number in [0, 1) per slot for all stages, so a smaller budget yields
            a prefix of a larger one. Ids are created on this tensor's device.
        mask_id: The input that stands for MASK.
        end_id: The id that ends a row, where lengths vary.
        sampling: Rules by which ids are chosen.
        committed: Actions that the chunks of the ids have to agree with.
    """
    batch_size, end = len(uniform_BK), 0
    block_BG = torch.empty(batch_size, 0, dtype=torch.int64, device=uniform_BK.device)
    ids_BK = block_BG
    has_ended_B = torch.zeros(batch_size, dtype=torch.bool, device=uniform_BK.device)
    for stage in stages:
        start, end = end, end + len(stage.positions)
        inputs_BG = F.pad(block_BG, (0, end - start - block_BG.shape[1]), value=mask_id)
        logits_BGV = generation.feed(inputs_BG, stage.positions, stage.mask, stage.num_kept)
        if committed is None:
            block_BG = sampling.choose(logits_BGV, uniform_BK[:, start:end])
        else:
            block_BG = committed.choose(ids_BK, logits_BGV, uniform_BK[:, start:end], sampling)
            ids_BK = torch.cat([ids_BK, block_BG], dim=1)
        yield GeneratedStage(block_BG, entropy_bits(logits_BGV))
        if end_id is not None:
            has_ended_B |= (block_BG == end_id).any(dim=1)
            if has_ended_B.all():
                return


def generate_chunks(
    generation: Generation,
    stages: Sequence[Stage],
    uniform_NK: Tensor,
    decoder: ChunkDecoder,
    settings: GenerationSettings,
    *,
    mask_id: int,
    end_id: int | None,
    state_NS: Tensor | None = None,
) -> GeneratedChunks:
    """Generate tokens once for every observation of the batch and decode them.

    Args:
        generation: Stateful decoder with an empty key-value cache.
        stages: All stages of the schedule.
        uniform_NK: One uniform number in [0, 1) per slot, as in `generate_stages`.
        decoder: Decodes the ids.
        settings: How tokens are generated.
        mask_id: The input that stands for MASK.
        end_id: The id that ends a row, where lengths vary.
        state_NS: Raw state at which each chunk starts, where actions are relative to it.
    """
    schedule, budget, tokenizer = settings.schedule, settings.budget, decoder.tokenizer
    stages = stages[: schedule.calls_for(budget)]
    is_done_N = torch.zeros(len(uniform_NK), dtype=torch.bool, device=uniform_NK.device)
    calls_N = torch.zeros_like(is_done_N, dtype=torch.int64)
    budget_N = torch.zeros_like(calls_N)
    stopped_N = torch.full_like(calls_N, ALL if budget == schedule.endpoints[-1] else BUDGET)
    ids: list[Tensor] = []
    entropies: list[Tensor] = []
    generate = partial(generate_stages, sampling=settings.sampling, committed=settings.committed)
    for stage in generate(generation, stages, uniform_NK, mask_id=mask_id, end_id=end_id):
        ids.append(stage.ids)
        entropies.append(stage.entropy_bits)
        reached = min(schedule.endpoints[len(ids) - 1], budget)
        calls_N = torch.where(is_done_N, calls_N, len(ids))
        budget_N = torch.where(is_done_N, budget_N, reached)
        is_sure_N = settings.thresholds.stops(entropies) if settings.thresholds else None
        if is_sure_N is not None:
            stopped_N = torch.where(is_sure_N & ~is_done_N, AUTO, stopped_N)
            is_done_N = is_done_N | is_sure_N
            if is_done_N.all():
                break
        if settings.deadline is not None:
            final = settings.deadline.final_budget(schedule, len(ids), budget, tokenizer.budgets)
            if final is not None:
                budget_N = torch.where(is_done_N, budget_N, final)
                stopped_N = torch.where(is_done_N, stopped_N, DEADLINE)
                break
    tokens = Tokens(torch.cat(ids, dim=1), budget_N, state=state_NS)
    if end_id is not None:
        tokens = replace(cut_at_end(tokens.ids, end_id, budget), state=state_NS)
        calls_N = _calls_until_end(tokens.lengths, schedule, len(stages))
        stopped_N = torch.where(tokens.lengths < budget, ALL, stopped_N)
    chunk_NTA, undecodable = decoder.decode(tokens)
    entropy_NK, attempts_N = torch.cat(entropies, dim=1), torch.ones_like(calls_N)
    found = (chunk_NTA, tokens, entropy_NK, calls_N, attempts_N)
    return GeneratedChunks(*found, undecodable, stopped_N)


def _calls_until_end(lengths_N: Tensor, schedule: Schedule, num_stages: int) -> Tensor:
    """(N,) number of stages that each row needs for its tokens and its end symbol."""
    num_with_end_N = (lengths_N + 1).clamp(max=schedule.endpoints[num_stages - 1])
    return lengths_N.new_tensor([schedule.calls_for(number) for number in num_with_end_N.tolist()])


def cut_at_end(ids_BK: Tensor, end_id: int, budget: int) -> Tokens:
    """Tokens up to, and without, the end symbol of each row, and at most `budget` of them."""
    is_kept_BK = (ids_BK == end_id).cumsum(dim=1) == 0
    return Tokens(ids_BK * is_kept_BK, is_kept_BK.sum(dim=1).clamp(max=budget))
