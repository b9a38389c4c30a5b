"""Held-out chunks and their tokens, which every measurement of a tokenizer starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.data import Dataset
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens

MAX_CHUNKS = 8192
"""Maximum number of chunks that are measured; of a larger dataset, pairs of successive ones, spread
evenly."""


@dataclass(frozen=True)
class EncodedChunks:
    """Chunks of a dataset and what a tokenizer makes of them.

    Attributes:
        actions: The chunks (B, T, A), raw units.
        is_pad: Which steps (B, T) lie past the end of an episode.
        tokens: The tokens of the chunks, all of them.
    """

    actions: Tensor
    is_pad: NDArray[np.bool_]
    tokens: Tokens


def encode_chunks(tokenizer: ActionTokenizer, dataset: Dataset) -> EncodedChunks:
    """Read and encode the chunks that are measured."""
    actions_BTA, is_pad_BT, state_BS = chunks_to_measure(dataset, tokenizer.horizon)
    wanted_BTA = torch.from_numpy(actions_BTA)
    return EncodedChunks(wanted_BTA, is_pad_BT, tokenizer.encode(wanted_BTA, state_BS))


def chunks_to_measure(
    dataset: Dataset, horizon: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32] | None]:
    """Raw chunks (B, T, A), in the order of the dataset, their padding (B, T), and the states that
    they start from, (B, S), where there are states."""
    chunks = dataset.chunks(horizon)
    indices = np.arange(len(chunks))
    if len(chunks) > MAX_CHUNKS:
        first_P = np.linspace(0, len(chunks) - 2, MAX_CHUNKS // 2).astype(int)
        indices = np.stack([first_P, first_P + 1], axis=1).ravel()
    return *chunks.actions(indices), chunks.start_states(indices)


@torch.inference_mode()
def decode_prefix(tokenizer: ActionTokenizer, tokens: Tokens) -> Tensor:
    """Raw chunks of tokens of any length, also of length 0, which `tokenizer.decode` refuses."""
    return tokenizer.to_raw(tokenizer.decode_normalized(tokens), tokens.state)
