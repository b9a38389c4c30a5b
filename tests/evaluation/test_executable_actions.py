from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oatkit.evaluation.executable_actions import checked_chunk, clip_actions

LOW, HIGH = np.array([-1, -np.inf], np.float32), np.array([1, 0.5], np.float32)
chunks = arrays(np.float32, (5, 2), elements=st.floats(-3, 3, width=32))


@given(chunks, st.integers(1, 5))
def test_the_first_steps_within_the_bounds(chunk_TA: np.ndarray, num_steps: int) -> None:
    checked_TA = checked_chunk(chunk_TA, num_steps, 2, "the chunk")
    actions_NA, is_clipped = clip_actions(checked_TA[:num_steps], LOW, HIGH)
    assert actions_NA.shape == (num_steps, 2)
    for given_A, found_A, clipped in zip(chunk_TA, actions_NA, is_clipped, strict=False):
        inside = -1 <= given_A[0] <= 1 and given_A[1] <= 0.5
        assert clipped == (not inside)
        assert found_A[0] == min(1, max(-1, given_A[0]))
        assert found_A[1] == min(0.5, given_A[1])


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (np.zeros((2, 2)), r"the chunk is \(2, 2\), expected \(3 or more, 2\)"),
        (np.zeros((4, 3)), r"the chunk is \(4, 3\), expected \(3 or more, 2\)"),
        (np.zeros(4), r"the chunk is \(4,\), expected"),
        (np.full((3, 2), np.inf), "the chunk is not finite"),
        (np.array([[0, 0]] * 4 + [[np.nan, 0]]), "the chunk is not finite"),
    ],
)
def test_a_wrong_chunk_is_refused(chunk: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_chunk(chunk, 3, 2, "the chunk")
