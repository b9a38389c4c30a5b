"""A learned prefix and an analytic tail in one token sequence.

    T_1 .. T_n      tokens of `oat` or `oat-pow2`, trained
    T_n+1 ..        tokens of `klt`, fitted on what the learned ones leave

The first tokens are where learning helps most: they hold the shape of the data. What remains is
close to noise, which tables describe better than a network and for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.tokenizers.codec import doubling, no_progress
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.oat import Oat, OatConfig
from oatkit.types import Schedule, Tokens


class Refined(nn.Module):
    """The codec of an `OatConfig` with `refine`."""

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True

    def __init__(self, config: OatConfig) -> None:
        super().__init__()
        self.config = config
        self.learned = Oat(replace(config, refine=0))
        self.tail = Klt(
            KltConfig(
                horizon=config.horizon,
                action_dim=config.action_dim,
                num_tokens=config.refine,
                levels=config.levels,
            )
        )
        self.vocab_size = self.learned.vocab_size
        self.max_tokens = config.num_tokens + config.refine
        later = [k for k in doubling(self.max_tokens) if k > config.num_tokens]
        self.budgets = (*self.learned.budgets, *later)
        self.schedule = _schedule(config, self.max_tokens)

    def loss(self, actions_BTA: Tensor, random: SampleRandom) -> TrainingLoss:
        return self.learned.loss(actions_BTA, random)

    def fit(
        self,
        chunks: Callable[[], Iterator[Tensor]],
        on_progress: Callable[[float], None] = no_progress,
    ) -> None:
        """Fit the tail on what the learned tokens leave."""
        with torch.inference_mode():
            self.tail.fit(lambda: (self._left(block) for block in chunks()), on_progress)

    def encode(self, actions_BTA: Tensor) -> Tokens:
        first = self.learned.encode(actions_BTA)
        later = self.tail.encode(actions_BTA - self.learned.decode(first))
        return Tokens.full(torch.cat([first.ids, later.ids], dim=1))

    def decode(self, tokens: Tokens) -> Tensor:
        count = self.learned.max_tokens
        coarse_BTA = self.learned.decode(tokens.prefix(count))
        later = Tokens(tokens.ids[:, count:], (tokens.lengths - count).clamp(min=0))
        is_past_B = tokens.lengths > count
        return coarse_BTA + self.tail.decode(later) * is_past_B[:, None, None]

    def _left(self, actions_BTA: Tensor) -> Tensor:
        return actions_BTA - self.learned.decode(self.learned.encode(actions_BTA))


def _schedule(config: OatConfig, num_tokens: int) -> Schedule:
    """The learned groups go on: tokens of a tail are a chain, or the doubling of `oat-pow2`."""
    if config.kind == "oat" and config.groups is None:
        return Schedule.tokenwise(num_tokens)
    if config.groups is None and num_tokens & (num_tokens - 1) == 0:
        return Schedule.pow2(num_tokens)
    return Schedule((*config.resolved_groups, *_equal_blocks(config, num_tokens)))


def _equal_blocks(config: OatConfig, num_tokens: int) -> range | tuple[int, ...]:
    size = config.schedule.block_sizes[-1]
    if config.refine % size:
        raise ValueError(
            f"{config.refine} refining tokens cannot be generated in blocks of {size}, as the last "
            f"learned group is"
        )
    return range(config.num_tokens + size, num_tokens + 1, size)
