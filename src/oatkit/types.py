"""The words every room shares: tokens, schedules, result records and the names of choices."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

NormalizationMode = Literal["min_max", "quantiles", "mean_std", "identity"]

CheckKind = Literal[
    "non-finite",
    "constant",
    "action-is-state",
    "wrapping-angle",
    "short-episode",
    "outlier",
    "duplicate-episode",
    "timestamps",
    "missing-video",
]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A batch of token sequences.

    Attributes:
        ids: (B, K) int64; slots past a row's length hold 0 and mean nothing.
        lengths: (B,) int64; how many slots of each row count.
    """

    ids: torch.Tensor
    lengths: torch.Tensor

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
        """The number of sequences."""
        return len(self.ids)

    def prefix(self, k: int) -> Tokens:
        """The first `k` tokens of every sequence; shorter ones stay as they are."""
        if k < 0:
            raise ValueError(f"a prefix has {k} tokens, expected 0 or more")
        return Tokens(self.ids[:, :k], self.lengths.clamp(max=k))


@dataclass(frozen=True)
class Schedule:
    """In which blocks a policy generates its tokens: stage s emits those up to `endpoints[s]`.

        token-wise   1, 2, 3, 4, 5, 6, 7, 8     one token a call
        pow2         1, 2, 4, 8                 doubles with every call
        one-shot     8                          all at once

    Attributes:
        endpoints: How many tokens there are after each stage. Blocks never get smaller: a stage
            reads the last `g_s` slots of its input, and the previous block must fit there.
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
            raise ValueError(f"{num_tokens} tokens cannot be doubled up to: not a power of two")
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
        """The number of stages: forward passes for all tokens."""
        return len(self.endpoints)

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """How many tokens each stage emits: g_s."""
        return tuple(end - start for start, end in pairwise((0, *self.endpoints)))

    def calls_for(self, budget: int) -> int:
        """Stages needed for the first `budget` tokens; a block is run whole or not at all."""
        if not 1 <= budget <= self.num_tokens:
            raise ValueError(f"budget {budget} is outside 1 .. {self.num_tokens}")
        return bisect_left(self.endpoints, budget) + 1


@dataclass(frozen=True)
class Finding:
    """Something in a dataset that ruins training: what, where, and what to do about it."""

    kind: CheckKind
    message: str
    remedy: str
    episode: int | None = None
    frame: int | None = None


@dataclass(frozen=True)
class DatasetCheck:
    """What `oatkit data check` found."""

    path: str
    format: str
    horizon: int
    findings: tuple[Finding, ...]
    schema: str = "oatkit/dataset-check"
    version: int = 1


@dataclass(frozen=True)
class DimensionSummary:
    """One dimension of the action or the state at a glance."""

    name: str
    min: float
    max: float
    mean: float
    std: float
    q01: float
    q99: float
    histogram: tuple[int, ...]
    """Counts in equal bins from min to max."""


@dataclass(frozen=True)
class CameraSummary:
    name: str
    height: int
    width: int
    is_available: bool


@dataclass(frozen=True)
class TaskSummary:
    text: str
    num_episodes: int


@dataclass(frozen=True)
class DatasetInfo:
    """What `oatkit data info` shows."""

    path: str
    format: str
    num_episodes: int
    num_frames: int
    length_quantiles: tuple[int, int, int, int, int]
    """Episode length in frames: minimum, 25 %, median, 75 %, maximum."""
    fps: float | None
    cameras: tuple[CameraSummary, ...]
    tasks: tuple[TaskSummary, ...]
    action_keys: tuple[str, ...]
    action: tuple[DimensionSummary, ...]
    state_keys: tuple[str, ...]
    state: tuple[DimensionSummary, ...]
    other_columns: tuple[str, ...]
    fingerprint: str
    schema: str = field(default="oatkit/dataset-info")
    version: int = 1


@dataclass(frozen=True)
class BudgetMeasurement:
    """Rate and distortion at one budget, over held-out chunks."""

    budget: int
    """How many leading tokens were kept; 0 decodes masks only."""
    is_trained: bool
    """Whether this budget had direct supervision."""
    tokens: float
    """Mean number of tokens; less than the budget only where lengths vary."""
    bits: float
    """tokens * log2(vocabulary)."""
    entropy_bits: float
    """Sum over the kept slots of the entropy of the ids that occur there."""
    mse: float
    """Mean squared error in raw units, repeated tail steps counted."""
    mse_without_padding: float
    """The same without the steps past an episode's end."""
    mse_normalized: float
    gaussian_mse: float
    """What an ideal linear code of a Gaussian source leaves at these bits, raw units."""
    mae: tuple[float, ...]
    """Mean absolute error of each dimension, raw units."""
    worst: tuple[float, ...]
    """Largest absolute error of each dimension, raw units."""
    jerk_ratio: float
    """Mean squared third difference of decoded over true chunks; 1 is as smooth."""


@dataclass(frozen=True)
class SlotMeasurement:
    """How one token slot uses the vocabulary."""

    usage: float
    """Share of the vocabulary that occurs."""
    perplexity: float
    """Two to the power of the entropy of its ids."""


@dataclass(frozen=True)
class Robustness:
    """How decoding answers what an encoder would not send."""

    random_finite: float
    """Share of random sequences that decode to finite chunks."""
    random_undecodable: float
    """Share that does not decode at all."""
    corrupted_finite: float
    """Share of real sequences with one random token that decode to finite chunks."""
    corrupted_undecodable: float
    corrupted_mse: float
    """Raw mean squared change of those chunks that decode."""


@dataclass(frozen=True)
class TokenizerMeasurement:
    """What `oatkit tokenizer measure` finds."""

    path: str
    kind: str
    data: str
    split: str
    num_chunks: int
    horizon: int
    action_dim: int
    vocab_size: int
    max_tokens: int
    num_parameters: int
    budgets: tuple[BudgetMeasurement, ...]
    slots: tuple[SlotMeasurement, ...]
    robustness: Robustness
    encode_chunks_per_s: float
    decode_chunks_per_s: float
    schema: str = "oatkit/tokenizer-measurement"
    version: int = 1
