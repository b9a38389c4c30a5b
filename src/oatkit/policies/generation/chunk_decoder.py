"""Decodes generated tokens to the chunks that a policy acts by.

tokens ── tokenizer ── normalized chunks ── correction, if any ── raw chunks
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens

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
