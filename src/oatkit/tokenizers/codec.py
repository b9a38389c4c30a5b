"""What every tokenizer kind is inside: normalised chunks to ids and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from oatkit.nn.random import SampleRandom
from oatkit.types import Schedule, Tokens


class Codec(Protocol):
    """A kind of tokenizer; an `nn.Module` whose state is all it has learned.

    Chunks are normalised here, (B, T, A) float32; raw units are the business of
    `ActionTokenizer`, which holds a codec and a normaliser.
    """

    config: Any
    """A frozen dataclass with `horizon` and `action_dim`, from which the codec was made."""
    vocab_size: int
    max_tokens: int
    budgets: tuple[int, ...]
    schedule: Schedule
    is_ordered: ClassVar[bool]
    is_total: ClassVar[bool]
    is_fixed_length: ClassVar[bool]
    has_prefixes: bool
    """Whether fewer than all tokens decode too."""

    def encode(self, actions_BTA: Tensor) -> Tokens:
        """Tokens of normalised chunks."""

    def decode(self, tokens: Tokens) -> Tensor:
        """Normalised chunks of tokens, (B, T, A); a row's length is its budget."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> Any: ...


@runtime_checkable
class LearnedCodec(Protocol):
    """A codec that is trained by gradient descent."""

    def loss(self, actions_BTA: Tensor, random: SampleRandom) -> Tensor:
        """The training loss of normalised chunks, a scalar; draws from the samples' `random`."""

    def parameters(self) -> Iterator[Tensor]: ...


@runtime_checkable
class FittedCodec(Protocol):
    """A codec that is computed from the data, without gradient descent."""

    def fit(self, chunks: Callable[[], Iterator[Tensor]]) -> None:
        """Learn from normalised chunks, given in blocks of (B, T, A), anew at every call."""
