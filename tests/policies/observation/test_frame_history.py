"""The last frames of an episode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.policies.observation.frame_history import FrameHistory


@given(st.integers(1, 5), st.lists(st.integers(), min_size=1, max_size=12))
def test_frames_are_the_last_ones_after_the_first_repeated(
    num_frames: int, added: list[int]
) -> None:
    history = FrameHistory[int](num_frames)
    for frame in added:
        history.add(frame)
    assert history.frames() == ([added[0]] * num_frames + added)[-num_frames:]


def test_clear_begins_another_episode() -> None:
    history = FrameHistory[str](2)
    history.add("last of an episode")
    history.clear()
    with pytest.raises(ValueError, match="has no frame yet"):
        history.frames()
    history.add("first of the next")
    assert history.frames() == ["first of the next"] * 2


def test_a_history_without_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="0 frames, expected at least 1"):
        FrameHistory[str](0)
