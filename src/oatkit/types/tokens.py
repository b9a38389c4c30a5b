"""The words every room shares: tokens, schedules and how actions are normalized."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

NormalizationMode = Literal["min_max", "quantiles", "mean_std", "identity"]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A batch of token sequences.

    Attributes:
        ids: Ids (B, K) int64; slots past a row's length hold 0 and mean nothing.
        lengths: Number of slots of each row that count, (B,) int64.
        is_numpy: Whether they were encoded from numpy, so that they decode to numpy.
        state: Raw state at the start of each chunk, (B, S), where actions are relative to it: what
            tokens were encoded with, they decode with.
    """

    ids: torch.Tensor
    lengths: torch.Tensor
    is_numpy: bool = False
    state: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or self.lengths.shape != self.ids.shape[:1]:
            raise ValueError(
                f"ids are {tuple(self.ids.shape)} and lengths {tuple(self.lengths.shape)}, "
                "expected (B, K) and (B,)"
            )

    @classmethod
    def full(cls, ids: torch.Tensor) -> Tokens:
        """Sequences in which every slot of `ids` (B, K) counts."""
        return cls(ids, ids.new_full((len(ids),), ids.shape[1]))

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.ids)

    def prefix(self, k: int) -> Tokens:
        """The first `k` tokens of every sequence; shorter ones stay as they are."""
        if k < 0:
            raise ValueError(f"a prefix has {k} tokens, expected 0 or more")
        return replace(self, ids=self.ids[:, :k], lengths=self.lengths.clamp(max=k))

    def rows(self, which: Any) -> Tokens:
        """Some of the sequences: a slice, or a tensor of indices."""
        state = None if self.state is None else self.state[which]
        return replace(self, ids=self.ids[which], lengths=self.lengths[which], state=state)


@dataclass(frozen=True)
class Schedule:
    """The blocks in which a policy generates its tokens: stage s gives those up to `endpoints[s]`.

        token-wise   1, 2, 3, 4, 5, 6, 7, 8     one token a call
        pow2         1, 2, 4, 8                 doubles with every call
        one-shot     8                          all at once

    Attributes:
        endpoints: Number of tokens after each stage. Blocks never get smaller: a stage reads the
            last `g_s` slots of its input, and the previous block must fit there.
    """

    endpoints: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = self.block_sizes
        if not sizes or min(sizes) < 1 or any(a > b for a, b in pairwise(sizes)):
            raise ValueError(
                f"endpoints {self.endpoints} make blocks of {sizes}, expected blocks of 1 or more "
                "that never get smaller"
            )

    @classmethod
    def tokenwise(cls, num_tokens: int) -> Schedule:
        """One token a call."""
        return cls(tuple(range(1, num_tokens + 1)))

    @classmethod
    def pow2(cls, num_tokens: int) -> Schedule:
        """1, 2, 4, ... tokens; `num_tokens` is a power of two."""
        if num_tokens < 1 or num_tokens & (num_tokens - 1):
            raise ValueError(f"num_tokens is {num_tokens}, expected a power of two: 1, 2, 4, 8 ...")
        return cls(tuple(1 << i for i in range(num_tokens.bit_length())))

    @classmethod
    def one_shot(cls, num_tokens: int) -> Schedule:
        """All tokens in one call."""
        return cls((num_tokens,))

    @classmethod
    def blocks(cls, num_tokens: int, size: int) -> Schedule:
        """`size` tokens a call; `size` divides `num_tokens`."""
        if size < 1 or num_tokens % size:
            raise ValueError(f"blocks of {size} do not divide {num_tokens} tokens")
        return cls(tuple(range(size, num_tokens + 1, size)))

    @property
    def num_tokens(self) -> int:
        return self.endpoints[-1]

    @property
    def calls(self) -> int:
        """Number of stages, which are the forward passes for all tokens."""
        return len(self.endpoints)

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of tokens of each stage, g_s."""
        return tuple(end - start for start, end in pairwise((0, *self.endpoints)))

    def calls_for(self, budget: int) -> int:
        """Number of stages for the first `budget` tokens; a block is always run completely."""
        if not 1 <= budget <= self.num_tokens:
            raise ValueError(f"budget {budget} is outside 1 .. {self.num_tokens}")
        return bisect_left(self.endpoints, budget) + 1

    def up_to(self, num_tokens: int) -> Schedule:
        """The first stages, as many as the first `num_tokens` tokens need."""
        return Schedule(self.endpoints[: self.calls_for(num_tokens)])
