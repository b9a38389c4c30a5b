"""`klt` with a learned correction: a small network on top of what its tables decode to.

    tokens ── tables ── chunk ──────────────────────────── + ── corrected chunk
                          └── network(chunk, number of tokens) ──┘

Ids stay those of the tables, so that no gradient has to pass a choice of ids. The network starts at
zero. Whether it helps is found out on chunks that neither tables nor network have seen: both are
made once without them, which says for how many steps to train and at which numbers of tokens the
error falls. Then both are made of all chunks, and everywhere else the correction stays zero.

Shape letters: N chunk, B chunk of a batch, T step, A action dimension, K token, D number of a
chunk.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.tokenizers.codec import decode_in_parts, encode_in_parts, no_progress
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.klt_fit import MAX_CHUNKS, thinned
from oatkit.types import Tokens

WIDTH = 256
STEPS = 2000
"""Largest number of training steps."""
EVALUATE_EVERY = 200
BATCH_SIZE = 256
LEARNING_RATE = 1e-3
AVERAGE = 0.99
"""Decay of the running average of the weights, which is what is kept."""
MAX_HELD_OUT = 2048
"""Largest number of chunks that decide what is kept."""
HELD_OUT_BLOCKS = 10
"""Number of stretches of chunks of which each has its last seventh held out."""
WORTH = 0.995
"""Error over the tables' own below which a correction is kept."""


class Correction(nn.Module):
    """The network: what is added to a chunk of so many tokens, before its scale."""

    def __init__(self, size: int, num_tokens: int) -> None:
        super().__init__()
        self.read = nn.Linear(size, WIDTH)
        self.count = nn.Embedding(num_tokens + 1, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.write = nn.Linear(WIDTH, size)
        nn.init.zeros_(self.write.weight)
        nn.init.zeros_(self.write.bias)

    def forward(self, chunk_BD: Tensor, count_B: Tensor) -> Tensor:
        hidden_BW = F.relu(self.read(chunk_BD) + self.count(count_B))
        correction_BD: Tensor = self.write(hidden_BW + F.relu(self.mix(hidden_BW)))
        return correction_BD


class Corrected(nn.Module):
    """The codec of a `KltConfig` with `correct`.

    Attributes:
        ratios: Held-out error over that of the tables at each budget, as it was found when the
            codec was fitted; empty for one that was loaded.
    """

    is_ordered = True
    is_total = True
    is_fixed_length = True
    has_prefixes = True
    max_chunks = MAX_CHUNKS
    scale: Tensor

    def __init__(self, config: KltConfig) -> None:
        super().__init__()
        self.config = config
        self.tables = Klt(replace(config, correct=False))
        self.vocab_size = self.tables.vocab_size
        self.max_tokens = self.tables.max_tokens
        self.budgets = self.tables.budgets
        self.schedule = self.tables.schedule
        self.net = Correction(config.horizon * config.action_dim, self.max_tokens)
        self.net.requires_grad_(False)  # fitting trains a copy
        self.register_buffer("scale", torch.zeros(self.max_tokens + 1))
        self.ratios: dict[int, float] = {}

    def encode(self, actions_BTA: Tensor) -> Tokens:
        return self.tables.encode(actions_BTA)

    def decode(self, tokens: Tokens) -> Tensor:
        return self._corrected(self.tables.decode(tokens), tokens.lengths)

    def describe(self) -> str:
        """What fitting found of the correction, in a sentence."""
        kept = {budget: r for budget, r in self.ratios.items() if self.scale[budget] > 0}
        if not kept:
            return "the correction did not lower the error of chunks not seen: it was left out"
        falls = ", ".join(f"{1 - ratio:.0%} at {budget}" for budget, ratio in kept.items())
        without = [str(budget) for budget in self.ratios if budget not in kept]
        rest = f"; it was left out at {', '.join(without)}" if without else ""
        return f"the correction lowers the error of chunks not seen by tokens: {falls}{rest}"

    def kept(self) -> Corrected | Klt:
        """What to keep after fitting: the tables alone where the correction was left out at every
        number of tokens."""
        return self if bool((self.scale > 0).any()) else self.tables

    def fit(
        self,
        chunks: Callable[[], Iterator[Tensor]],
        on_progress: Callable[[float], None] = no_progress,
    ) -> None:
        """Fit the tables, and train the network as far as it helps on chunks not seen."""
        shape = (self.config.horizon, self.config.action_dim)
        chunks_NTA = thinned(chunks).view(-1, *shape)
        is_held_out_N = _held_out(len(chunks_NTA))
        trial = copy.deepcopy(self)
        steps = trial._try(chunks_NTA[~is_held_out_N], chunks_NTA[is_held_out_N], on_progress)
        self.ratios = {budget: trial.ratios[budget] for budget in self.budgets}
        all_chunks = [chunks_NTA]  # read once, though fitting goes over them twice
        self.tables.fit(lambda: iter(all_chunks), lambda share: on_progress(0.5 + share / 4))
        self._learn(chunks_NTA, steps)
        is_worth_K = [ratio < WORTH for ratio in trial.ratios.values()]
        self.scale *= torch.tensor([False, *is_worth_K], device=self.scale.device)

    def _try(
        self, known_NTA: Tensor, unseen_NTA: Tensor, on_progress: Callable[[float], None]
    ) -> int:
        """Fit to known chunks; gives the number of steps that is best for unseen ones, and keeps
        the ratio of their errors at every number of tokens."""
        known = [known_NTA]
        self.tables.fit(lambda: iter(known), lambda share: on_progress(share / 4))
        unseen_NTA = unseen_NTA[:: -(-len(unseen_NTA) // MAX_HELD_OUT)]
        tokens = encode_in_parts(self.tables, unseen_NTA)
        found: list[tuple[float, int, dict[int, float]]] = []

        def evaluate(step: int) -> None:
            ratios = self._ratios(tokens, unseen_NTA)
            found.append((sum(ratios[k] for k in self.budgets), step, ratios))

        self._learn(known_NTA, STEPS, evaluate)
        _, steps, self.ratios = min(found, key=lambda one: one[0])
        return steps

    @torch.no_grad()
    def _ratios(self, tokens: Tokens, wanted_NTA: Tensor) -> dict[int, float]:
        """Number of tokens to the error over that of the tables alone."""
        found = {}
        for count in range(1, self.max_tokens + 1):
            kept = tokens.prefix(count)
            plain_NTA = decode_in_parts(self.tables, kept)
            errors = (
                (x_NTA - wanted_NTA).square().mean()
                for x_NTA in (self._corrected(plain_NTA, kept.lengths), plain_NTA)
            )
            mine, theirs = map(float, errors)
            found[count] = mine / max(theirs, 1e-30)
        return found

    def _learn(
        self, chunks_NTA: Tensor, steps: int, evaluate: Callable[[int], None] | None = None
    ) -> None:
        """Train the network on prefixes of the tokens of these chunks, for so many steps."""
        generator = torch.Generator().manual_seed(0)
        tokens = encode_in_parts(self.tables, chunks_NTA)
        self.scale.copy_(self._error_scale(tokens, chunks_NTA))
        trained = copy.deepcopy(self.net).requires_grad_(True)
        optimizer = torch.optim.AdamW(trained.parameters(), lr=LEARNING_RATE, weight_decay=1e-2)
        counts = torch.tensor([*self.budgets, *range(1, self.max_tokens + 1)])
        for step in range(1, steps + 1):
            row_B = torch.randint(len(chunks_NTA), (BATCH_SIZE,), generator=generator)
            count_B = counts[torch.randint(len(counts), (BATCH_SIZE,), generator=generator)]
            with torch.no_grad():
                plain_BTA = self.tables.decode(Tokens(tokens.ids[row_B], count_B))
                left_BD = (chunks_NTA[row_B] - plain_BTA).flatten(1)
                wanted_BD = left_BD / self.scale[count_B, None].clamp_min(1e-12)
            with torch.enable_grad():
                loss = F.mse_loss(trained(plain_BTA.flatten(1), count_B), wanted_BD)
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for mine, new in zip(self.net.parameters(), trained.parameters(), strict=True):
                    mine.lerp_(new, 1 - min(AVERAGE, step / (step + 10)))
            if evaluate is not None and step % EVALUATE_EVERY == 0:
                evaluate(step)

    @torch.no_grad()
    def _error_scale(self, tokens: Tokens, chunks_NTA: Tensor) -> Tensor:
        """Root mean square of what so many tokens leave, (K + 1,); 0 for none of them."""
        some = Tokens(tokens.ids[:MAX_HELD_OUT], tokens.lengths[:MAX_HELD_OUT])
        scales = [
            (decode_in_parts(self.tables, some.prefix(k)) - chunks_NTA[:MAX_HELD_OUT]).square()
            for k in range(1, self.max_tokens + 1)
        ]
        return torch.stack([torch.zeros(()), *(x.mean().sqrt() for x in scales)])

    def _corrected(self, chunk_BTA: Tensor, lengths_B: Tensor) -> Tensor:
        count_B = lengths_B.clamp(0, self.max_tokens)
        added_BD = self.net(chunk_BTA.flatten(1), count_B) * self.scale[count_B, None]
        return chunk_BTA + added_BD.view_as(chunk_BTA)


def _held_out(count: int) -> Tensor:
    """Which of so many chunks are held out: ends of long stretches, because neighbors overlap."""
    within_N = torch.arange(count) * HELD_OUT_BLOCKS % count
    return 7 * within_N >= 6 * count
