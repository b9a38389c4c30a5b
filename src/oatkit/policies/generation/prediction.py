"""From a model with a cache to a chunk: budgets, early stops, deadlines, and drawing again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.errors import DecodeError
from oatkit.policies.generation.blockwise import (
    Feed,
    Generators,
    covering,
    ended,
    generate,
    uniforms,
)
from oatkit.policies.generation.early_stop import AutoThresholds, chunk_change
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Sampling, Schedule, Tokens

MAX_DRAWS = 10
"""How often a sequence that does not decode (`fast`, strict) is drawn anew."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """A chunk and what was generated for it.

    Arrays like those of the observation: torch for torch, else numpy; without the leading axis
    where the observation was one frame.

    Attributes:
        chunk: (B, horizon, action_dim) raw units.
        ids: (B, K) all ids that were generated.
        entropy_bits: (B, K) how uncertain the model was about each, before sampling rules.
        budget: (B,) how many leading ids the chunk was decoded from.
        calls: (B,) stages that were run for them.
        draws: (B,) 1, or more where a sequence did not decode and was drawn again.
        elapsed_ms: From observation to chunk.
    """

    chunk: Any
    ids: Any
    entropy_bits: Any
    budget: Any
    calls: Any
    draws: Any
    elapsed_ms: float


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a `Prediction` is made of, as tensors of the whole batch."""

    chunk: Tensor
    tokens: Tokens
    entropy: Tensor
    calls: Tensor
    draws: Tensor


@dataclass(frozen=True)
class Latency:
    """How long the parts of a prediction take, in milliseconds."""

    stages_ms: tuple[float, ...]
    decode_ms: float


@dataclass(frozen=True)
class Deadline:
    """When a chunk must be there.

    Attributes:
        at: On the clock of `time.perf_counter`.
        latency: What to expect of what is left to do.
    """

    at: float
    latency: Latency

    def allows(self, num_done: int, num_calls: int) -> bool:
        """Whether the stages after `num_done`, up to `num_calls`, fit, and decoding."""
        needed = sum(self.latency.stages_ms[num_done:num_calls]) + self.latency.decode_ms
        return time.perf_counter() + needed / 1000 <= self.at


@dataclass(frozen=True)
class Drawing:
    """How tokens are drawn.

    Attributes:
        schedule: In which blocks.
        budget: The most tokens that are decoded.
        mask_id: The input that stands for MASK.
        end_id: The id that ends a row; None where lengths do not vary.
        sampling: How ids are chosen.
        auto: Stop early by these.
        deadline: Stop early for this.
    """

    schedule: Schedule
    budget: int
    mask_id: int
    end_id: int | None
    sampling: Sampling = Sampling()
    auto: AutoThresholds | None = None
    deadline: Deadline | None = None


def resolve_budget(tokenizer: ActionTokenizer, schedule: Schedule, budget: Budget) -> int:
    """The most tokens to decode; an error names what is possible."""
    most = schedule.num_tokens
    if most > tokenizer.max_tokens:
        raise ValueError(
            f"the schedule ends at {most} tokens, {tokenizer.kind} has {tokenizer.max_tokens}"
        )
    wanted: Any = most if budget is None or budget == "auto" else budget
    if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool):
        raise ValueError(f"budget is {budget!r}, expected a number of tokens or 'auto'")
    if not 1 <= wanted <= most:
        ends = f", where the schedule ends at {most}" if most < tokenizer.max_tokens else ""
        raise ValueError(f"budget {wanted} is outside 1 .. {most}{ends}")
    has_prefixes = can_stop(tokenizer) if budget == "auto" else tokenizer.codec.has_prefixes
    if (wanted < tokenizer.max_tokens or budget == "auto") and not has_prefixes:
        raise ValueError(
            f"{tokenizer.kind} decodes only all of its tokens: budget {budget or wanted} is none "
            f"of {list(tokenizer.budgets)}"
        )
    return int(wanted)


def can_stop(tokenizer: ActionTokenizer) -> bool:
    """Whether any number of tokens is a chunk, so that generation may stop early."""
    return tokenizer.codec.has_prefixes and tokenizer.is_fixed_length


@torch.inference_mode()
def predict(
    start: Callable[[Tensor], Feed],
    tokenizer: ActionTokenizer,
    drawing: Drawing,
    *,
    batch_size: int,
    device: torch.device,
    generator: Generators = None,
) -> Drawn:
    """Draw and decode; a sequence that does not decode is drawn again, up to `MAX_DRAWS` times.

    Args:
        start: Gives the model with an empty cache for some rows (N,) of the batch.
        tokenizer: Decodes.
        drawing: How tokens are drawn.
        batch_size: B.
        device: Of the model.
        generator: For the batch or for each row.
    """
    drawn: Drawn | None = None
    rows_N = torch.arange(batch_size, device=device)
    problems: dict[int, str] = {}
    for _ in range(MAX_DRAWS):
        own = generator
        if isinstance(generator, list | tuple) and len(generator) == batch_size:
            own = [generator[row] for row in rows_N.tolist()]
        uniform_NK = uniforms(own, len(rows_N), drawing.schedule.num_tokens).to(device)
        new, problems = draw(start(rows_N), tokenizer, drawing, uniform_NK)
        drawn = new if drawn is None else _with_rows(drawn, rows_N, new)
        if not problems:
            return drawn
        rows_N = rows_N[list(problems)]
    raise DecodeError(
        f"{len(problems)} of {batch_size} sequences did not decode in {MAX_DRAWS} draws; the last: "
        f"{next(iter(problems.values()))}"
    )


def draw(
    feed: Feed, tokenizer: ActionTokenizer, drawing: Drawing, uniform_NK: Tensor
) -> tuple[Drawn, dict[int, str]]:
    """One draw of every row, and what is wrong with those rows that do not decode."""
    schedule, num_rows = covering(drawing.schedule, drawing.budget), len(uniform_NK)
    scale_A = torch.as_tensor(tokenizer.normalizer.scale, device=uniform_NK.device)
    calls_N = torch.zeros(num_rows, dtype=torch.int64, device=uniform_NK.device)
    budget_N, is_done_N = torch.zeros_like(calls_N), torch.zeros_like(calls_N, dtype=torch.bool)
    chunk_NTA: Tensor | None = None
    before_NTA: Tensor | None = None
    ids: list[Tensor] = []
    entropies: list[Tensor] = []
    stages = generate(
        feed,
        schedule,
        uniform_NK,
        mask_id=drawing.mask_id,
        end_id=drawing.end_id,
        sampling=drawing.sampling,
    )
    for num_calls, stage in enumerate(stages, start=1):
        ids.append(stage.ids)
        entropies.append(stage.entropy_bits)
        reached = min(schedule.endpoints[num_calls - 1], drawing.budget)
        calls_N = torch.where(is_done_N, calls_N, num_calls)
        budget_N = torch.where(is_done_N, budget_N, reached)
        if drawing.auto is not None:
            now_NTA = tokenizer.decode(torch.cat(ids, dim=1), budget=reached)
            kept_NTA = now_NTA if chunk_NTA is None else chunk_NTA
            chunk_NTA = torch.where(is_done_N[:, None, None], kept_NTA, now_NTA)
            change_N = chunk_change(now_NTA, before_NTA, scale_A)
            is_done_N |= drawing.auto.stops(change_N, stage.entropy_bits.mean(dim=1))
            before_NTA = now_NTA
            if is_done_N.all():
                break
        if drawing.deadline is not None and reached < drawing.budget:
            trained = [b for b in tokenizer.budgets if b < drawing.budget]
            goal = next((b for b in trained if b > reached), drawing.budget)
            if not drawing.deadline.allows(num_calls, schedule.calls_for(goal)):
                # what lies between two trained budgets was generated on the way to the second
                best = max((b for b in trained if b <= reached), default=reached)
                budget_N = torch.where(is_done_N, budget_N, best)
                chunk_NTA = chunk_NTA if best == reached else None
                break
    ids_NK = torch.cat(ids, dim=1)
    tokens = Tokens(ids_NK, budget_N)
    if drawing.end_id is not None:
        whole = ended(ids_NK, drawing.end_id)
        tokens = Tokens(whole.ids, whole.lengths.clamp(max=drawing.budget))
        read_N = (tokens.lengths + 1).clamp(max=schedule.num_tokens).tolist()
        calls_N = calls_N.new_tensor([schedule.calls_for(k) for k in read_N])
    problems: dict[int, str] = {}
    if chunk_NTA is None:
        chunk_NTA, problems = _decode(tokenizer, tokens)
    entropy_NK = torch.cat(entropies, dim=1)
    return Drawn(chunk_NTA, tokens, entropy_NK, calls_N, torch.ones_like(calls_N)), problems


def _decode(tokenizer: ActionTokenizer, tokens: Tokens) -> tuple[Tensor, dict[int, str]]:
    """Chunks, and for each row that does not decode why; its chunk means nothing."""
    if tokenizer.is_total:
        return tokenizer.decode(tokens), {}
    shape = (len(tokens), tokenizer.horizon, tokenizer.action_dim)
    chunk_NTA, problems = torch.full(shape, torch.nan, device=tokens.ids.device), {}
    for row in range(len(tokens)):
        try:
            one = Tokens(tokens.ids[row : row + 1], tokens.lengths[row : row + 1])
            chunk_NTA[row] = tokenizer.decode(one)[0]
        except DecodeError as error:
            problems[row] = str(error)
    return chunk_NTA, problems


def _with_rows(old: Drawn, rows_N: Tensor, new: Drawn) -> Drawn:
    """`old` with `new` in some rows."""
    num_slots = max(old.tokens.ids.shape[1], new.tokens.ids.shape[1])

    def put(a: Tensor, b: Tensor) -> Tensor:
        if a.ndim == 2:
            a, b = (F.pad(x, (0, num_slots - x.shape[1])) for x in (a, b))
        return a.index_copy(0, rows_N, b)

    return Drawn(
        put(old.chunk, new.chunk),
        Tokens(put(old.tokens.ids, new.tokens.ids), put(old.tokens.lengths, new.tokens.lengths)),
        put(old.entropy, new.entropy),
        put(old.calls, new.calls),
        old.draws.index_add(0, rows_N, new.draws),
    )
