"""Protocols of a codec, which every kind of tokenizer is: normalized chunks to ids and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.types import Schedule, Tokens

UNWRITTEN_DEFAULT = {"is_default_written": False}
"""Metadata of a field of a config that is newer than artifacts: its default is not written, so that
their digests stay what they were."""


class Codec(Protocol):
    """An `nn.Module` whose state is everything it has learned.

    Its chunks are normalized, (B, T, A) float32. `ActionTokenizer`, which holds a codec and a
    normalizer, translates from and to raw units.
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
        """Tokens of normalized chunks."""

    def decode(self, tokens: Tokens) -> Tensor:
        """Normalized chunks of tokens, (B, T, A); a row's length is its budget."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any) -> Any: ...


@runtime_checkable
class LearnedCodec(Protocol):
    """A codec that is trained by gradient descent."""

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
    ) -> TrainingLoss:
        """The training loss of normalized chunks; random numbers come from the samples' own.

        A codec that is told the embodiment takes the number of each chunk's, (B,), too.

        Args:
            actions_BTA: Normalized chunks.
            random: Random numbers of the samples.
            weight_BA: Weight of each dimension of each chunk, 0 for padding; None for 1.
        """

    def parameters(self) -> Iterator[Tensor]: ...


@runtime_checkable
class ChangesAfterStep(Protocol):
    """A learned codec of which a part follows the data by other means than gradients."""

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """Change after a step of the optimizer, the same in every process.

        Args:
            gather: Joins a tensor over all processes, in the order of the global batch.
            random: Random numbers of the samples of the global batch.
        """


@runtime_checkable
class PartlyLearned(Protocol):
    """A codec of which only a part is trained by gradient descent, before the rest is fitted."""

    @property
    def learned(self) -> Codec:
        """The codec that is trained."""


def trained_part(codec: Codec) -> Codec:
    """The codec that gradient descent trains: a part of the given one, or all of it."""
    return codec.learned if isinstance(codec, PartlyLearned) else codec


@runtime_checkable
class FittedCodec(Protocol):
    """A codec that is computed from the data, without gradient descent."""

    def fit(
        self, chunks: Callable[[], Iterator[Tensor]], on_progress: Callable[[float], None] = ...
    ) -> None:
        """Learn from normalized chunks, given in blocks of (B, T, A), anew at every call.

        Long work says now and then which share of it is done.
        """


@runtime_checkable
class ThinsChunks(Protocol):
    """A fitted codec that looks at a part of what it is given, where that is much."""

    @property
    def max_chunks(self) -> int:
        """Largest number of chunks that it looks at."""


def not_fitted(kind: str) -> ValueError:
    """The error of a codec that is used before it was computed from data."""
    return ValueError(
        f"this {kind} tokenizer is not fitted yet: make one with oatkit.train_tokenizer, or open "
        "one with oatkit.load_tokenizer"
    )


@runtime_checkable
class HasFiles(Protocol):
    """A codec whose artifact has more files than config, weights and model card."""

    def learned_files(self) -> dict[str, bytes]:
        """What was learned and is no tensor: content of each file by its name."""

    def other_files(self) -> dict[str, bytes]:
        """Files for other programs, which repeat what the config holds."""

    def read_files(self, folder: Path) -> None:
        """Take what `learned_files` gave from the artifact in a folder."""


@runtime_checkable
class HasCodePositions(Protocol):
    """A codec whose ids are points, of which near ones decode to similar chunks."""

    def code_positions(self) -> Tensor:
        """Where the code of each id lies, (V, C); neighbors are 1 apart."""


CPU_PART, PART = 64, 4096
"""Number of chunks that are computed at once: by a learned codec on a CPU, and otherwise. Larger
results of the former are given back to the system when they are freed, and new pages take time."""


def encode_in_parts(codec: Codec, actions_BTA: Tensor) -> Tokens:
    """`codec.encode` of any number of chunks, which may be of another length or have fewer
    dimensions; tokens are where the chunks are."""
    actions_BTA = to_shape(actions_BTA, (codec.config.horizon, codec.config.action_dim))
    device = _device(codec, actions_BTA)
    parts = [
        codec.encode(part.to(device))
        for part in torch.split(actions_BTA, _part_size(codec, device))
    ]
    most = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, most - part.ids.shape[1])) for part in parts]
    lengths = [part.lengths for part in parts]
    return Tokens(_joined(ids).to(actions_BTA.device), _joined(lengths).to(actions_BTA.device))


def decode_in_parts(codec: Codec, tokens: Tokens, shape: tuple[int, int] | None = None) -> Tensor:
    """`codec.decode` of any number of sequences; chunks are where the tokens are.

    Args:
        codec: Codec of any kind.
        tokens: Sequences to decode.
        shape: Steps and dimensions of the chunks; the codec's by default.
    """
    device = _device(codec, tokens.ids)
    size = _part_size(codec, device)
    shape = shape or (codec.config.horizon, codec.config.action_dim)
    if len(tokens.ids) <= size and tokens.ids.device == device:
        return to_shape(codec.decode(tokens), shape)
    parts = zip(torch.split(tokens.ids, size), torch.split(tokens.lengths, size), strict=True)
    decoded = [codec.decode(Tokens(ids.to(device), lengths.to(device))) for ids, lengths in parts]
    return to_shape(_joined(decoded).to(tokens.ids.device), shape)


def to_shape(chunks_BTA: Tensor, shape: tuple[int, int]) -> Tensor:
    """Chunks of so many steps, stretched in time, and dimensions, padded with 0 or cut."""
    if chunks_BTA.shape[1:] == shape:
        return chunks_BTA
    num_steps, dim = shape
    cut_BTA = F.pad(chunks_BTA, (0, dim - chunks_BTA.shape[2]))
    if chunks_BTA.shape[1] == num_steps:
        return cut_BTA
    moved_BAT = F.interpolate(cut_BTA.transpose(1, 2), num_steps, mode="linear", align_corners=True)
    return moved_BAT.transpose(1, 2)


def _device(codec: Codec, batch: Tensor) -> torch.device:
    """Where a codec computes; one without tensors computes where its batch is."""
    assert isinstance(codec, nn.Module)
    return next(chain(codec.parameters(), codec.buffers()), batch).device


def _part_size(codec: Codec, device: torch.device) -> int:
    return CPU_PART if device.type == "cpu" and isinstance(codec, LearnedCodec) else PART


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts))


def checked_chunks(actions: ArrayLike | Tensor, shape: tuple[int, int]) -> Tensor:
    """Chunks as a float32 tensor; an error if they are not finite, or not of so many steps and
    dimensions."""
    if not isinstance(actions, Tensor):
        actions = torch.from_numpy(np.asarray(actions, np.float32))
    if tuple(actions.shape[1:]) != shape or actions.ndim != 3:
        raise ValueError(
            f"actions are {tuple(actions.shape)}, expected (batch, {shape[0]}, {shape[1]})"
        )
    if not torch.isfinite(actions).all():
        chunk, step, dimension = torch.nonzero(~torch.isfinite(actions))[0].tolist()
        raise ValueError(
            f"actions are not finite, first at chunk {chunk}, step {step}, dimension {dimension}"
        )
    return actions.float()


def written_settings(config: Any) -> dict[str, Any]:
    """JSON values of a codec's config, without its kind."""
    values = asdict(config)
    for own in fields(config):
        is_written = own.metadata.get("is_default_written", True)
        if own.name == "kind" or (not is_written and values[own.name] == own.default):
            del values[own.name]
    return values


def no_progress(_: float) -> None:
    """Take the share of work that is done, and do nothing with it."""


def spread_blocks(blocks: Iterable[Tensor], step: int) -> Iterator[Tensor]:
    """Every chunk whose number is a multiple of `step`, of blocks that follow each other."""
    first = 0
    for block in blocks:
        if first < len(block):
            yield block[first::step]
        first = (first - len(block)) % step


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


def as_tokens(ids: Tensor | NDArray[np.integer] | Sequence[Any]) -> Tokens:
    """Ids in a tensor or an array (B, K), or in lists of any lengths."""
    if isinstance(ids, Tensor) and ids.ndim == 2:
        return Tokens.full(ids.long())
    if isinstance(ids, np.ndarray) and ids.ndim == 2:
        return Tokens.full(torch.from_numpy(ids.astype(np.int64)))
    rows = list(ids)
    if rows and not np.ndim(rows[0]):
        raise ValueError("ids are one sequence, expected a batch of sequences: [ids]")
    return tokens_of_lists(rows)
