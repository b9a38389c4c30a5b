"""What each budget makes of the same tokens: the chunks that recordings show side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oatkit.tokenizers.action_tokenizer import ActionTokenizer


def prefix_chunks(
    tokenizer: ActionTokenizer, ids: Sequence[int], state: ArrayLike | None = None
) -> dict[int, NDArray[np.float32]]:
    """Budget to the chunk that so many of the ids decode to, (T, A).

    A kind without order has its whole sequence alone.

    Args:
        tokenizer: Tokenizer of the ids.
        ids: The ids of one chunk, all or the first of them.
        state: State at the start of the chunk, (state_dim,) in raw units, for a tokenizer that
            `needs_state`.
    """
    whole = len(ids)
    budgets = [budget for budget in tokenizer.budgets if budget < whole]
    kept = [*budgets, whole] if tokenizer.is_ordered else [whole]
    state_BS = np.asarray(state)[None] if tokenizer.needs_state else None
    return {
        budget: np.asarray(tokenizer.decode([list(ids[:budget])], state=state_BS)[0], np.float32)
        for budget in kept
        if budget
    }
