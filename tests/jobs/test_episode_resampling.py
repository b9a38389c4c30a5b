"""Episodes at another rate."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oatkit.jobs.episode_resampling import even_times, frame_places, nearest_frames, resampled

RATES = st.sampled_from([5.0, 10.0, 15.0, 20.0, 50.0, 100.0])


@given(st.integers(1, 60), RATES, RATES)
def test_a_line_stays_a_line_and_ends_within_the_episode(
    num_frames: int, rate: float, new_rate: float
) -> None:
    seconds = even_times(num_frames, rate)
    places = frame_places(seconds, new_rate)
    found = resampled(seconds[:, None].astype(np.float32), places)
    np.testing.assert_allclose(found[:, 0], np.arange(len(found)) / new_rate, atol=1e-4)
    assert 0 <= seconds[-1] - found[-1, 0] + 1e-4 < 1 / new_rate + 2e-4
    nearest = nearest_frames(places)
    assert nearest.min() == 0
    assert nearest.max() < num_frames


def test_frames_that_were_recorded_unevenly_are_put_where_they_belong() -> None:
    seconds = np.array([7.0, 7.1, 7.4, 7.5])
    found = resampled((seconds[:, None] * 2).astype(np.float32), frame_places(seconds, 10))
    np.testing.assert_allclose(found[:, 0], 14 + 0.2 * np.arange(6), atol=1e-5)


def test_the_same_rate_changes_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    places = frame_places(even_times(9, 10), 10)
    np.testing.assert_allclose(resampled(rows, places), rows, atol=1e-6)
    assert nearest_frames(places).tolist() == list(range(9))


def test_steps_take_the_nearest_frame() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0]], np.float32)
    found = resampled(rows, frame_places(even_times(2, 1), 4), np.array([False, True]))
    assert found[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert found[:, 1].tolist() == [0, 0, 1, 1, 1]
