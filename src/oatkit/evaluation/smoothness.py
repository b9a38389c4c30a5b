"""How far executed actions jump from step to step, where a new chunk begins and elsewhere.

Shape letters: N executed step, A action.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mean_jumps(
    actions_NA: NDArray[np.float32],
    is_seam_N: Sequence[bool],
    scale_A: NDArray[np.float64] | float,
) -> tuple[float | None, float | None]:
    """Mean jump to actions at which a chunk begins, and to all others; None where there are none.

    A jump is the root mean square over dimensions of the difference of successive actions.

    Args:
        actions_NA: Executed actions.
        is_seam_N: Whether a chunk begins at each.
        scale_A: Raw units in a normalized one, (A,).
    """
    jump_N = np.sqrt(np.square(np.diff(actions_NA, axis=0) / scale_A).mean(axis=1))
    is_seam = np.asarray(is_seam_N[1:], bool)
    return _mean(jump_N[is_seam]), _mean(jump_N[~is_seam])


def _mean(jumps: NDArray[np.float64]) -> float | None:
    return float(jumps.mean()) if len(jumps) else None
