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
    return float(np.minimum(_water_level(eigenvalues_D, bits), eigenvalues_D).mean())


def fitted_gaussian_distortion(
    train_BTA: NDArray[np.float32], held_out_BTA: NDArray[np.float32], bits: float
) -> float:
    """The same where mean, components and the bits of each are those of training chunks.

    A component to which they give b bits leaves 2^(-2 b) of what its variance about that mean is
    in the held-out chunks: this is the best that such a code can do without having seen them.
    """
    flat_BD = train_BTA.reshape(len(train_BTA), -1).astype(np.float64)
    mean_D = flat_BD.mean(axis=0)
    centered_BD = flat_BD - mean_D
    variances_D, components_DD = np.linalg.eigh(centered_BD.T @ centered_BD / len(flat_BD))
    variances_D = variances_D.clip(min=1e-12 * max(variances_D[-1], 1e-300))
    left_D = np.minimum(_water_level(variances_D, bits) / variances_D, 1)
    held_out_BD = held_out_BTA.reshape(len(held_out_BTA), -1) - mean_D
    return float((np.square(held_out_BD @ components_DD).mean(axis=0) * left_D).mean())


def _water_level(eigenvalues_D: NDArray[np.float64], bits: float) -> float:
    """What is left of every component that is described; infinite where none is."""
    sorted_D = np.sort(eigenvalues_D[eigenvalues_D > 0])[::-1]
    if not len(sorted_D) or bits <= 0:
        return np.inf
    logs = np.log2(sorted_D)
    counts = np.arange(1, len(sorted_D) + 1)
    # With the n largest described, the level that spends exactly all bits:
    levels = (np.cumsum(logs) - 2 * bits) / counts
    # n is right when its smallest component is still above the level.
    described = int(counts[levels <= logs][-1])
    return float(2.0 ** levels[described - 1])
