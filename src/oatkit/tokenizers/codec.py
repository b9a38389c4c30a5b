"""What every tokenizer kind is inside: normalised chunks to ids and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from oatkit.nn.random import SampleRandom
from oatkit.types import Schedule, Tokens


class Codec(Protocol):
    """A kind of tokenizer; an `nn.Module` whose state is all it has learned.

    Chunks are normalised here, (B, T, A) float32; raw units are the business of
    `ActionTokenizer`, which holds a codec and a normaliser.
    """

    @property
    def config(self) -> Any:
        """A frozen dataclass with `kind`, `horizon` and `action_dim`, which makes the codec."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def budgets(self) -> tuple[int, ...]: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def is_ordered(self) -> bool: ...

    @property
    def is_total(self) -> bool: ...

    @property
    def is_fixed_length(self) -> bool: ...

    @property
    def has_prefixes(self) -> bool:
        """Whether fewer than all tokens decode too."""

    def encode(self, actions_BTA: Tensor) -> Tokens:
        """Tokens of normalised chunks."""

    def decode(self, tokens: Tokens) -> Tensor:
        """Normalised chunks of tokens, (B, T, A); a row's length is its budget."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any) -> Any: ...


@runtime_checkable
class LearnedCodec(Protocol):
    """A codec that is trained by gradient descent."""

    def loss(self, actions_BTA: Tensor, random: SampleRandom) -> Tensor:
        """The training loss of normalised chunks, a scalar; draws from the samples' `random`."""

    def parameters(self) -> Iterator[Tensor]: ...


@runtime_checkable
class FittedCodec(Protocol):
    """A codec that is computed from the data, without gradient descent."""

    def fit(
        self, chunks: Callable[[], Iterator[Tensor]], on_progress: Callable[[float], None] = ...
    ) -> None:
        """Learn from normalised chunks, given in blocks of (B, T, A), anew at every call.

        Long work says now and then which share of it is done.
        """


@runtime_checkable
class HasFiles(Protocol):
    """A codec that keeps more than tensors in its artefact."""

    def write_files(self, folder: Path) -> None: ...

    def read_files(self, folder: Path) -> None: ...


CPU_PART = 64
"""Chunks that a CPU computes at once. Larger results are given back to the system when they are
freed, and getting their pages again takes time."""


def encode_in_parts(codec: Codec, actions_BTA: Tensor) -> Tokens:
    """`codec.encode`, a part at a time where that is faster."""
    if not _wants_parts(codec, actions_BTA):
        return codec.encode(actions_BTA)
    parts = [codec.encode(part) for part in torch.split(actions_BTA, CPU_PART)]
    return Tokens(torch.cat([t.ids for t in parts]), torch.cat([t.lengths for t in parts]))


def decode_in_parts(codec: Codec, tokens: Tokens) -> Tensor:
    """`codec.decode`, a part at a time where that is faster."""
    if not _wants_parts(codec, tokens.ids):
        return codec.decode(tokens)
    ids_and_lengths = (torch.split(part, CPU_PART) for part in (tokens.ids, tokens.lengths))
    split = zip(*ids_and_lengths, strict=True)
    return torch.cat([codec.decode(Tokens(ids, lengths)) for ids, lengths in split])


def _wants_parts(codec: Codec, batch: Tensor) -> bool:
    is_large = len(batch) > CPU_PART and batch.device.type == "cpu"
    return is_large and codec.is_fixed_length and isinstance(codec, LearnedCodec)


def no_progress(_: float) -> None:
    """Nobody watches."""


def doubling(num_tokens: int) -> tuple[int, ...]:
    """1, 2, 4, ... and `num_tokens` itself."""
    powers = [1 << i for i in range(num_tokens.bit_length()) if 1 << i < num_tokens]
    return (*powers, num_tokens)


def tokens_of_lists(rows: Sequence[Sequence[int]], device: torch.device | None = None) -> Tokens:
    """Sequences of different lengths as one batch, padded with 0."""
    ids_BK = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for row, ids in zip(ids_BK, rows, strict=True):
        row[: len(ids)] = ids
    lengths = torch.tensor([len(ids) for ids in rows], dtype=torch.int64, device=device)
    return Tokens(torch.from_numpy(ids_BK).to(lengths.device), lengths)
