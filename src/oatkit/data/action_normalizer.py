"""The normalizer of a dataset's actions, as they are represented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oatkit.data.action_transform import ActionTransform
from oatkit.data.dataset import Dataset
from oatkit.data.normalizer import Normalizer
from oatkit.data.statistics import Statistics, compute_statistics
from oatkit.types import NormalizationMode

MAX_CHUNKS = 2**18
"""Number of chunks up to which all are read; of more, chunks at even distances."""
CHUNKS_PER_BLOCK = 4096


def fit_action_normalizer(
    dataset: Dataset,
    raw: Statistics,
    mode: NormalizationMode,
    transform: ActionTransform | None,
    horizon: int,
) -> Normalizer:
    """Raw to normalized actions.

    Args:
        dataset: Demonstrations.
        raw: Statistics of its raw actions.
        mode: How they are normalized.
        transform: How they are represented before that; None for as they are.
        horizon: Number of actions in a chunk, on which a representation may depend.
    """
    if transform is None:
        return Normalizer.fit(raw, mode, holds_constants=True)
    fitted = transform.fitted(raw)
    if not fitted.has_own_first_step:
        return replace(_fit(dataset, fitted, horizon, mode, slice(None)), transform=fitted)
    first, later = (
        _fit(dataset, fitted, horizon, mode, part) for part in (slice(0, 1), slice(1, None))
    )
    rows = (later,) * (horizon - 1)
    is_held = np.stack([row.spread == 0 for row in (first, *rows)])
    return Normalizer(
        mode,
        np.stack([first.offset, *(row.offset for row in rows)]),
        np.stack([first.scale, *(row.scale for row in rows)]),
        fitted,
        is_held if is_held.any() else None,
    )


def _fit(
    dataset: Dataset,
    transform: ActionTransform,
    horizon: int,
    mode: NormalizationMode,
    steps: slice,
) -> Normalizer:
    """The normalizer of some steps of represented chunks."""
    read = _represented(dataset, transform, horizon, steps)
    found = compute_statistics(read, dim=transform.dim)
    return Normalizer.fit(found, mode, holds_constants=True)


def _represented(
    dataset: Dataset, transform: ActionTransform, horizon: int, steps: slice
) -> Callable[[], Iterator[NDArray[np.float64]]]:
    """A function that gives rows of represented chunks, (rows, dim), block after block."""
    stride = -(-dataset.num_frames // MAX_CHUNKS)
    chunks = dataset.chunks(horizon, stride=stride)

    def read() -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(chunks), CHUNKS_PER_BLOCK):
            some = np.arange(start, min(len(chunks), start + CHUNKS_PER_BLOCK))
            state_BS = chunks.start_states(some) if transform.needs_state else None
            actions_BTA = chunks.actions(some)[0].astype(np.float64)
            yield transform.apply(actions_BTA, state_BS)[:, steps].reshape(-1, transform.dim)

    return read
