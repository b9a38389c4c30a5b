"""What an ideal linear code would leave: the rate-distortion function of a Gaussian source."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def eigenvalues(chunks_BTA: NDArray[np.float32]) -> NDArray[np.float64]:
    """Eigenvalues (T * A,) of the covariance of flattened chunks, never negative."""
    flat_BD = chunks_BTA.reshape(len(chunks_BTA), -1).astype(np.float64)
    centered_BD = flat_BD - flat_BD.mean(axis=0)
    return np.linalg.eigvalsh(centered_BD.T @ centered_BD / len(flat_BD)).clip(min=0)


def gaussian_distortion(eigenvalues_D: NDArray[np.float64], bits: float) -> float:
    """Mean squared error of each number at `bits` a chunk, by reverse water-filling.

    Components above the water level are described, each to that level; the others are left out:

        rate = sum of max(0, log2(eigenvalue / level) / 2),  distortion = mean of min(level, ...)
    """
    sorted_D = np.sort(eigenvalues_D[eigenvalues_D > 0])[::-1]
    if not len(sorted_D) or bits <= 0:
        return float(eigenvalues_D.mean())
    logs = np.log2(sorted_D)
    counts = np.arange(1, len(sorted_D) + 1)
    # With the n largest described, the level that spends exactly all bits:
    levels = (np.cumsum(logs) - 2 * bits) / counts
    # n is right when its smallest component is still above the level.
    described = int(counts[levels <= logs][-1])
    level = 2.0 ** levels[described - 1]
    return float(np.minimum(level, eigenvalues_D).mean())
