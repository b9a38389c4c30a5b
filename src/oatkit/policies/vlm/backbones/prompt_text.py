"""Text of prompts: ids of fixed pieces, and small vocabularies for models with random weights."""

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


def ids_of(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def train_bpe(
    corpus: Sequence[str], special: Sequence[str], space: str | None = None
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges for any text, fitted to some.

    Args:
        corpus: The text.
        special: Tokens that come first.
        space: What stands for a space where bytes are only the last resort (Gemma); bytes are the
            alphabet otherwise (Qwen, Llama).
    """
    made = Tokenizer(BPE())
    alphabet = ByteLevel.alphabet()
    names = list(special)
    if space is None:
        made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    else:
        made.normalizer = Replace(" ", space)
        made.pre_tokenizer = Split(" ", "merged_with_previous")
        alphabet = [chr(code) for code in range(33, 127)] + [space, "\n"]
        names += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=len(names) + len(alphabet) + NUM_MERGES,
        special_tokens=names,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(corpus, trainer)
    model = json.loads(made.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]
