"""The batches that a policy is trained on, as worker processes read them.

A worker process gets this object alone, without the policy: where processes are not forked (Python
3.14, macOS) it is pickled, and a network of billions of weights would be copied for each of them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.data import Chunks
from oatkit.jobs.token_cache import TokenTable
from oatkit.policies.observation.episode_reader import ReadObservation
from oatkit.types import Tokens


class PolicyBatches:
    """Reads batches of chunks, their tokens and what was observed before them.

    Args:
        chunks: Chunks of the episodes to train on.
        tokens: Tokens of the chunks; None where a policy has no token head.
        read: Makes an observation tensors, without anything that is trained.
    """

    def __init__(self, chunks: Chunks, tokens: TokenTable | None, read: ReadObservation) -> None:
        self._chunks = chunks
        self._tokens = tokens
        self._read = read

    def __call__(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """Ids, lengths, raw actions and padding of chunks, and the tensors of observations."""
        tokens = Tokens.full(torch.zeros(len(indices), 0, dtype=torch.int64))
        if self._tokens is not None:
            tokens = self._tokens.take(indices)
        chunks = self._chunks.batch(indices)
        observations = self._read(chunks)
        actions_BTA = torch.from_numpy(chunks["action"])
        is_pad_BT = torch.from_numpy(chunks["action_is_pad"])
        return (tokens.ids, tokens.lengths, actions_BTA, is_pad_BT, *observations.tensors())
