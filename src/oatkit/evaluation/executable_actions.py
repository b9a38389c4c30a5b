"""Checks a predicted chunk, and cuts out and clips what is executed of it.

Shape letters: T step in the chunk, N executed steps, A action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def executable(
    chunk: Any,
    num_steps: int,
    low_A: NDArray[np.float32],
    high_A: NDArray[np.float32],
    what: str,
) -> tuple[NDArray[np.float32], list[bool]]:
    """The first part of a chunk (T, A), within bounds, and which of its steps were clipped.

    A chunk of the wrong shape, too short or not finite is an error. What lies outside the bounds
    is clipped: decoders overshoot a little where demonstrations touch them.

    Args:
        chunk: Chunk that the policy predicted, (T, A).
        num_steps: Number of steps to execute.
        low_A: Lowest action, (A,), infinite where there is no bound.
        high_A: Highest action, (A,), infinite where there is no bound.
        what: Name of the chunk in error messages.
    """
    chunk_TA = np.asarray(chunk, np.float32)
    if chunk_TA.ndim != 2 or len(chunk_TA) < num_steps or chunk_TA.shape[1:] != low_A.shape:
        raise ValueError(
            f"{what} is {chunk_TA.shape}, expected ({num_steps} or more, {len(low_A)})"
        )
    chunk_NA = chunk_TA[:num_steps]
    if not np.isfinite(chunk_NA).all():
        raise ValueError(f"{what} is not finite")
    clipped_NA = chunk_NA.clip(low_A, high_A)
    return clipped_NA, (clipped_NA != chunk_NA).any(axis=1).tolist()
