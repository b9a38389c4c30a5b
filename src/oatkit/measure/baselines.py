"""What a policy must beat: answers that need no network, on the chunks that it is measured on.

hold         the action before the chunk, repeated
mean chunk   the mean chunk of the training episodes, whatever is observed
ridge        a linear function of the observed states, fitted to the training episodes

Shape letters: B chunk, S observed frame, T step in the chunk, A action dimension, X feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oatkit.data import Dataset
from oatkit.types import Baseline
from oatkit.types.observation_keys import STATE

BASELINES = {
    "hold": "holding the action before the chunk",
    "mean chunk": "always giving the mean chunk",
    "ridge": "a linear regression from the state",
}
"""Names in the record, and what they are in words."""
MAX_TRAINING_CHUNKS = 8192
"""Maximum number of chunks that mean and regression are fitted to; they are spread evenly."""
PENALTY = 1e-3
"""Ridge penalty on weights of standardized features, beside the mean squared error."""
FARTHEST = 10.0
"""Standard deviations at which a feature is cut off, so that one odd state decides nothing."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Chunks:
    """Chunks and what is known before them.

    Attributes:
        actions: The chunks (B, T, A), raw units.
        is_pad: Which steps (B, T) lie past the end of an episode.
        before: The action (B, A) of the step before; anything where an episode begins.
        is_first: Whether each chunk (B,) begins an episode.
        features: The observed states (B, X); X is 0 where there are none.
    """

    actions: Array
    is_pad: NDArray[np.bool_]
    before: Array
    is_first: NDArray[np.bool_]
    features: Array


def measure_baselines(
    train_set: Dataset, held_out: Dataset, *, horizon: int, history: int, max_chunks: int
) -> tuple[Baseline, ...]:
    """The errors of the answers; there is no regression where the data have no state.

    Args:
        train_set: Episodes that the answers may know.
        held_out: Episodes to answer in.
        horizon: Number of actions in a chunk.
        history: Number of observed states, the current one included.
        max_chunks: Maximum number of chunks of `held_out`; they are spread evenly.
    """
    known = _read(train_set, horizon, history, MAX_TRAINING_CHUNKS)
    asked = _read(held_out, horizon, history, max_chunks)
    first_A = train_set.action.take(train_set.episode_starts).astype(np.float64).mean(axis=0)
    hold_BA = np.where(asked.is_first[:, None], first_A, asked.before)
    answers = {"hold": hold_BA[:, None], "mean chunk": known.actions.mean(axis=0)}
    if known.features.shape[1]:
        answers["ridge"] = _ridge(known, asked.features)
    found = []
    for name, answer_BTA in answers.items():
        squared_BTA = np.square(answer_BTA - asked.actions)
        within = float(squared_BTA[~asked.is_pad].mean())
        found.append(Baseline(name, float(squared_BTA.mean()), within))
    return tuple(found)


def _read(dataset: Dataset, horizon: int, history: int, max_chunks: int) -> _Chunks:
    chunks = dataset.chunks(horizon, history=history)
    indices_B = chunks.spread(max_chunks)
    batch = chunks.batch(indices_B)
    features_BX = np.zeros((len(indices_B), 0))
    if STATE in batch:
        features_BX = batch[STATE].reshape(len(indices_B), -1).astype(np.float64)
    return _Chunks(
        actions=batch["action"].astype(np.float64),
        is_pad=batch["action_is_pad"],
        before=chunks.actions(np.maximum(indices_B - 1, 0))[0][:, 0].astype(np.float64),
        is_first=batch["frame_index"] == 0,
        features=features_BX,
    )


def _ridge(known: _Chunks, asked_BX: Array) -> Array:
    """The chunks (B, T, A) that a ridge regression expects after these features."""
    mean_X, std_X = known.features.mean(axis=0), known.features.std(axis=0)
    scale_X = np.where(std_X > 0, std_X, 1.0)
    known_BX, new_BX = (
        np.clip((x_BX - mean_X) / scale_X, -FARTHEST, FARTHEST)
        for x_BX in (known.features, asked_BX)
    )
    wanted_BY = known.actions.reshape(len(known_BX), -1)
    offset_Y = wanted_BY.mean(axis=0)
    gram_XX = known_BX.T @ known_BX / len(known_BX) + PENALTY * np.eye(known_BX.shape[1])
    weight_XY = np.linalg.solve(gram_XX, known_BX.T @ (wanted_BY - offset_Y) / len(known_BX))
    answer_BY: Array = new_BX @ weight_XY + offset_Y
    return answer_BY.reshape(-1, *known.actions.shape[1:])
