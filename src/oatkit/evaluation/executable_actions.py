"""Checks predicted chunks, adds them to the plan of an episode, and clips what is executed.

Shape letters: D draw, T step in the chunk, N executed steps, A action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.types import Prediction

Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]
"""The lowest and the highest action, (A,) each; infinite where there is no bound."""


def next_actions(
    plan: ActionPlan, found: Prediction, row: int, bounds: Bounds, what: str
) -> tuple[NDArray[np.float32], list[bool], list[bool]]:
    """What is executed until the next query once a prediction is part of the plan: the actions
    (N, A) within bounds, which of them were clipped, and at which a chunk begins.

    Args:
        plan: Plan of the episode.
        found: Prediction for several episodes.
        row: Place of the episode in it.
        bounds: What actions are clipped to.
        what: Name of the chunk in error messages.
    """
    low_A, high_A = bounds
    draws = found.chunk[row][None] if found.draws is None else found.draws[row]
    num_steps = plan.execution.shortest_chunk
    draws_DTA = [checked_chunk(draw, num_steps, len(low_A), what) for draw in draws]
    worth = None if found.execute_steps is None else int(found.execute_steps[row])
    planned_NA, is_seam = plan.take(plan.add(np.stack(draws_DTA), worth))
    return *clip_actions(planned_NA, low_A, high_A), is_seam


def checked_chunk(chunk: Any, num_steps: int, action_dim: int, what: str) -> NDArray[np.float32]:
    """A chunk (T, A) as float32; one of the wrong shape, too short or not finite is an error.

    Args:
        chunk: Chunk that the policy predicted, (T, A).
        num_steps: Number of steps that it must have.
        action_dim: Number of action dimensions.
        what: Name of the chunk in error messages.
    """
    chunk_TA = np.asarray(chunk, np.float32)
    if chunk_TA.ndim != 2 or len(chunk_TA) < num_steps or chunk_TA.shape[1] != action_dim:
        raise ValueError(
            f"{what} is {chunk_TA.shape}, expected ({num_steps} or more, {action_dim})"
        )
    if not np.isfinite(chunk_TA).all():
        raise ValueError(f"{what} is not finite")
    return chunk_TA


def clip_actions(
    actions_NA: NDArray[np.float32], low_A: NDArray[np.float32], high_A: NDArray[np.float32]
) -> tuple[NDArray[np.float32], list[bool]]:
    """Actions within bounds, and which of them were clipped.

    Decoders overshoot a little where demonstrations touch the bounds.

    Args:
        actions_NA: Actions to execute.
        low_A: Lowest action, (A,), infinite where there is no bound.
        high_A: Highest action, (A,), infinite where there is no bound.
    """
    clipped_NA = actions_NA.clip(low_A, high_A)
    return clipped_NA, (clipped_NA != actions_NA).any(axis=1).tolist()
