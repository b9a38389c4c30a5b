"""Ids of fixed pieces of a prompt, and small vocabularies for models with random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.trainers import BpeTrainer

NUM_MERGES = 128
"""Number of merges of a small vocabulary."""


def text_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Ids of a text in which special tokens may be named, without any around it."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def train_bpe(
    corpus: Sequence[str], special: Sequence[str], space: str | None = None
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges that cover any text, trained on a corpus.

    Args:
        corpus: Texts that the merges are learned from.
        special: Special tokens, which get the first ids.
        space: Character that stands for a space in a vocabulary of characters, which falls back
            to bytes (Gemma); None for a vocabulary of bytes (Qwen, Llama).
    """
    tokenizer = Tokenizer(BPE())
    alphabet = ByteLevel.alphabet()
    names = list(special)
    if space is None:
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    else:
        tokenizer.normalizer = Replace(" ", space)
        tokenizer.pre_tokenizer = Split(" ", "merged_with_previous")
        alphabet = [chr(code) for code in range(33, 127)] + [space, "\n"]
        names += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=len(names) + len(alphabet) + NUM_MERGES,
        special_tokens=names,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]
