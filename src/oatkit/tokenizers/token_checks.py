"""Whether ids and lengths are those that a codec decodes, and which of them do not decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from oatkit.errors import DecodeError
from oatkit.tokenizers.codec import Codec, as_tokens
from oatkit.types import Tokens


def checked_tokens(codec: Codec, given: Any, budget: int | None = None) -> Tokens:
    """The tokens that a codec is to decode; what it cannot decode is a `ValueError`.

    Args:
        codec: Codec that decodes them.
        given: `Tokens`, or ids in a tensor, an array or lists.
        budget: Number of leading tokens that count; all by default.
    """
    tokens = given if isinstance(given, Tokens) else as_tokens(given)
    if budget is not None:
        if not isinstance(budget, SupportsIndex):
            raise ValueError(f"budget is {budget!r}, expected a number 1 .. {codec.max_tokens}")
        if not 1 <= budget <= codec.max_tokens:
            raise ValueError(f"budget {budget} is outside 1 .. {codec.max_tokens}")
        tokens = tokens.prefix(budget)
    slot_K = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
    is_real_BK = slot_K < tokens.lengths[:, None]
    is_bad_BK = is_real_BK & ((tokens.ids < 0) | (tokens.ids >= codec.vocab_size))
    if is_bad_BK.any():
        row, slot = torch.nonzero(is_bad_BK)[0].tolist()
        raise ValueError(
            f"id {int(tokens.ids[row, slot])} at slot {slot} of sequence {row} is outside the "
            f"vocabulary 0 .. {codec.vocab_size - 1}"
        )
    _check_lengths(codec, tokens)
    return tokens if is_real_BK.all() else replace(tokens, ids=tokens.ids * is_real_BK)


def decode_each(
    codec: Codec, tokens: Tokens, shape: tuple[int, int], decode: Callable[[Tokens], Tensor]
) -> tuple[Tensor, dict[int, str]]:
    """Chunks of sequences one by one, and the reason for each that does not decode and is NaN.

    Args:
        codec: Codec of the tokens.
        tokens: Sequences to decode.
        shape: Number of steps and dimensions of a chunk.
        decode: Decodes sequences that were checked.
    """
    chunks, reasons = [], {}
    for row in range(len(tokens)):
        try:
            chunks.append(decode(checked_tokens(codec, tokens.rows(slice(row, row + 1)))))
        except DecodeError as error:
            reasons[row] = str(error)
            chunks.append(torch.full((1, *shape), torch.nan, device=tokens.ids.device))
    return torch.cat(chunks), reasons


def _check_lengths(codec: Codec, tokens: Tokens) -> None:
    if not len(tokens.ids) or not codec.is_fixed_length:
        return
    kind, shortest, longest = codec.config.kind, tokens.lengths.min(), tokens.lengths.max()
    if longest > codec.max_tokens:
        raise ValueError(f"a sequence has {longest} tokens, {kind} has {codec.max_tokens}")
    if shortest < codec.max_tokens and not codec.has_prefixes:
        raise ValueError(
            f"{kind} decodes only all of its tokens: budget {shortest} is none of "
            f"{list(codec.budgets)}"
        )
