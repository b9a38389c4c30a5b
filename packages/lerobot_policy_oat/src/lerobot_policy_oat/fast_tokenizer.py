"""oatkit's `fast` artifacts for LeRobot's own `pi0_fast`, which loads FAST by `AutoProcessor`.

`pi0_fast` calls the tokenizer to encode, but decodes by hand from `bpe_tokenizer`, `min_token` and
`scale`. Its pipeline normalizes the actions first, so they are taken and given normalized.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from oatkit import ActionTokenizer, load_tokenizer
from oatkit.errors import ArtifactError
from oatkit.tokenizers.fast import Fast


class OatkitFastTokenizer:
    """A `fast` tokenizer with FAST's calls and attributes.

    Args:
        tokenizer: A tokenizer of the kind `fast`, with normalized input.
    """

    def __init__(self, tokenizer: ActionTokenizer) -> None:
        from transformers import PreTrainedTokenizerFast

        if not isinstance(tokenizer.codec, Fast):
            raise ArtifactError(
                f"LeRobot's pi0_fast decodes only fast tokens by hand, not {tokenizer.kind}: use "
                "--policy.type=pi0_fast_oat"
            )
        self._tokenizer = tokenizer
        codec = tokenizer.codec
        self.bpe_tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=codec.bpe, clean_up_tokenization_spaces=False
        )
        self.min_token = codec.config.lowest
        self.scale = codec.config.scale
        self.vocab_size = codec.vocab_size
        self.time_horizon = codec.config.horizon
        self.action_dim = codec.config.action_dim

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **kwargs: Any
    ) -> OatkitFastTokenizer:
        """Open a folder or, by its id, a repository of the hub; further options of `AutoProcessor`
        have no effect."""
        return cls(load_tokenizer(pretrained_model_name_or_path, normalized_input=True))

    def save_pretrained(self, save_directory: str | os.PathLike[str], **kwargs: Any) -> Path:
        """Write the artifact."""
        return self._tokenizer.save_pretrained(save_directory)

    def __call__(self, actions: ArrayLike) -> list[list[int]]:
        """Ids of normalized chunks, (B, T, A) or (T, A)."""
        return self._tokenizer(actions)

    def decode(
        self,
        tokens: list[list[int]],
        *,
        time_horizon: int | None = None,
        action_dim: int | None = None,
    ) -> NDArray[np.float32]:
        """Normalized chunks, (B, T, A); tokens that are no chunk raise `DecodeError`."""
        asked = (time_horizon or self.time_horizon, action_dim or self.action_dim)
        if asked != (self.time_horizon, self.action_dim):
            raise ValueError(
                f"chunks of {asked[0]} x {asked[1]} were asked for, the tokenizer is for "
                f"{self.time_horizon} x {self.action_dim}"
            )
        return self._tokenizer.decode(tokens)


def register_fast_tokenizer() -> None:
    """Let `AutoProcessor` find the class by the name in `processor_config.json`."""
    try:
        from transformers import AutoProcessor
    except ModuleNotFoundError:  # LeRobot runs without it; pi0_fast does not
        return
    AutoProcessor.register(OatkitFastTokenizer, OatkitFastTokenizer, exist_ok=True)
