"""The error of held-out chunks at each trained budget, as an artifact keeps it.

Shape letters: B chunk, T step in the chunk, A action dimension, S state dimension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oatkit.data import Dataset

if TYPE_CHECKING:
    from oatkit.tokenizers.action_tokenizer import ActionTokenizer

MAX_CHUNKS_TO_EVALUATE = 2048


def held_out_chunks(
    tokenizer: ActionTokenizer, held_out_set: Dataset
) -> tuple[Tensor, NDArray[np.float32] | None]:
    """Raw held-out chunks, evenly spread, (B, T, A), and the states that they start from."""
    chunks = held_out_set.chunks(tokenizer.horizon)
    indices = chunks.spread(MAX_CHUNKS_TO_EVALUATE)
    return torch.from_numpy(chunks.actions(indices)[0]), chunks.start_states(indices)


def rate_distortion(
    tokenizer: ActionTokenizer, actions_BTA: Tensor, state_BS: NDArray[np.float32] | None = None
) -> list[dict[str, float]]:
    """Budget, bits and raw mean squared error of the chunks at each trained budget.

    Where lengths vary, the budget is the mean length. The states are those that the chunks start
    from.
    """
    state = tokenizer.codec.state_dict().values()
    wanted_BTA = actions_BTA.to(next((tensor.device for tensor in state), "cpu"))
    tokens = tokenizer.encode(wanted_BTA, state_BS)
    rows = []
    for budget in tokenizer.budgets:
        error_BTA = tokenizer.decode(tokens, budget=budget) - wanted_BTA
        kept = budget if tokenizer.is_fixed_length else float(tokens.lengths.double().mean())
        bits = kept * math.log2(tokenizer.vocab_size)
        rows.append({"budget": kept, "bits": bits, "mse": float(error_BTA.square().mean())})
    return rows
