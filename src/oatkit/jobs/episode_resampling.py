"""An episode at another rate: numbers between two frames are interpolated.

    recorded   0    1         2    3         at its own times, also uneven ones
    25 Hz      0   .   .   .   .   .         up to the last frame

Shape letters: T frame of the source, N frame of the result, A number of a column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def even_times(num_frames: int, rate: float) -> NDArray[np.float64]:
    """The seconds of frames at a rate, (T,)."""
    return np.arange(num_frames) / rate


def frame_places(seconds_T: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Where frames at a rate lie between the recorded ones, (N,): 1.5 is between 1 and 2.

    Args:
        seconds_T: When each frame was recorded; the seconds grow.
        rate: Frames a second of the result, the first of which is the first recorded one.
    """
    length_s = seconds_T[-1] - seconds_T[0]
    # a frame that rounding put a hair past the last one still counts
    count = int(np.floor(length_s * rate + 1e-4)) + 1
    return np.interp(np.arange(count) / rate, seconds_T - seconds_T[0], np.arange(len(seconds_T)))


def nearest_frames(places_N: NDArray[np.float64]) -> NDArray[np.int64]:
    """The recorded frame that is nearest to each place."""
    return np.floor(places_N + 0.5).astype(np.int64)


def resampled(
    rows_TA: NDArray[np.float32],
    places_N: NDArray[np.float64],
    is_step_A: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """Rows at places between the recorded ones, (N, A).

    Args:
        rows_TA: Recorded rows.
        places_N: Places, as `frame_places` gives them.
        is_step_A: Dimensions that jump, such as a binary gripper, which take the nearest frame.
    """
    before_N = np.floor(places_N).astype(np.int64)
    after_N = np.minimum(before_N + 1, len(rows_TA) - 1)
    share_N1 = (places_N - before_N)[:, None]
    found_NA = rows_TA[before_N] * (1 - share_N1) + rows_TA[after_N] * share_N1
    if is_step_A is not None and is_step_A.any():
        found_NA[:, is_step_A] = rows_TA[nearest_frames(places_N)][:, is_step_A]
    return found_NA.astype(np.float32)
