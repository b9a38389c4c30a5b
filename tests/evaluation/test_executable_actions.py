from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.evaluation.executable_actions import checked_chunk, clip_actions, next_actions
from oatkit.types import Execution
from oatkit.types.observation_keys import STATE
from tests.evaluation.pilot import Pilot

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


@given(st.integers(1, 6), st.integers(0, 2), st.sampled_from([None, 0.1]), st.sampled_from([1, 3]))
def test_what_is_executed_next_is_what_the_plan_says(
    steps: int, delay: int, blend: float | None, draws: int
) -> None:
    """Two queries of two episodes, of which the second is looked at."""
    execution = Execution(steps, blend, delay, draws)
    plan, own = ActionPlan(execution), ActionPlan(execution)
    states = np.array([[0, 0, 1, 1], [0, 0, 0.5, 1]], np.float32)
    frames = {STATE: np.stack([states, states], axis=1), "task": ["Go to the near goal."] * 2}
    for seed in range(2):
        found = Pilot().predict_action_chunk(frames, budget=4, generator=[0, seed], draws=draws)
        chunks_DTA = found.chunk[1][None] if found.draws is None else found.draws[1]
        planned_NA, is_seam = own.take(own.add(chunks_DTA.astype(np.float32)))
        actions_NA, is_clipped, begins = next_actions(plan, found, 1, (LOW, HIGH), "the chunk")
        np.testing.assert_array_equal(actions_NA, planned_NA.clip(LOW, HIGH))
        assert is_clipped == (actions_NA != planned_NA).any(axis=1).tolist()
        assert begins == is_seam
    with pytest.raises(ValueError, match=r"the chunk is \(8, 2\), expected \(9 or more, 2\)"):
        next_actions(ActionPlan(Execution(7, delay=2)), found, 1, (LOW, HIGH), "the chunk")
