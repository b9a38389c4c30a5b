"""Chunks become actions: never past a chunk, late ones late, means with their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.types import Execution

HORIZON = 8


def asked_at(step: int, horizon: int = HORIZON) -> np.ndarray:
    """A chunk whose actions say when it was asked for and which step each is for."""
    steps = np.arange(step, step + horizon)
    return np.stack([np.full(horizon, step), steps], axis=1).astype(np.float32)


@st.composite
def executions(draw: Any) -> tuple[Execution, int, list[int]]:
    """Settings, a horizon, and what the policy finds worth executing at each query."""
    horizon = draw(st.integers(1, 12))
    delay = draw(st.integers(0, horizon - 1))
    steps = draw(st.one_of(st.just("auto"), st.integers(1, horizon - delay)))
    blend = draw(st.one_of(st.none(), st.floats(0, 3)))
    worth = draw(st.lists(st.integers(1, 20), min_size=1, max_size=12))
    return Execution(steps, blend, delay), horizon, worth


@given(executions())
def test_every_action_is_of_a_chunk_that_covers_its_moment(
    case: tuple[Execution, int, list[int]],
) -> None:
    execution, horizon, worth = case
    plan = ActionPlan(execution)
    chunks: list[int] = []
    for wanted in worth:
        start = plan.step
        chunks.append(start)
        steps = plan.add(asked_at(start, horizon)[None], wanted)
        assert 1 <= steps <= horizon - execution.delay
        assert steps == (execution.steps if execution.steps != "auto" else min(wanted, steps))
        actions_NA, is_seam_N = plan.take(steps)
        assert actions_NA.shape == (steps, 2)
        assert plan.step == start + steps
        for step, action_A, is_seam in zip(
            range(start, plan.step), actions_NA, is_seam_N, strict=True
        ):
            late = [asked for asked in chunks if asked == 0 or asked + execution.delay <= step]
            acting = [asked for asked in late if step < asked + horizon]
            assert action_A[1] == pytest.approx(step, rel=1e-6)
            assert is_seam == (step == 0 or step - execution.delay in chunks[1:])
            if execution.blend is None:
                assert action_A[0] == acting[-1]
            else:
                weights = np.exp([-execution.blend * (step - asked) for asked in acting])
                mean = np.average(acting, weights=weights)
                assert action_A[0] == pytest.approx(mean, rel=1e-4, abs=1e-6)


@given(st.integers(1, HORIZON), st.integers(0, 1000))
def test_without_blend_delay_and_draws_the_first_steps_are_executed(steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = ActionPlan(Execution(steps))
    for _ in range(4):
        chunk_TA = rng.normal(size=(HORIZON, 2)).astype(np.float32)
        actions_NA, is_seam_N = plan.take(plan.add(chunk_TA[None]))
        np.testing.assert_array_equal(actions_NA, chunk_TA[:steps])
        assert is_seam_N == [True] + [False] * (steps - 1)


def test_a_late_chunk_acts_late() -> None:
    plan = ActionPlan(Execution(3, delay=2))
    executed: list[float] = []
    for _ in range(4):
        actions_NA, _ = plan.take(plan.add(asked_at(plan.step)[None]))
        executed += actions_NA[:, 0].tolist()
    assert executed == [0, 0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9]
    np.testing.assert_array_equal(plan.planned(2)[:, 0], [9, 9])  # committed: no chunk changes it
    np.testing.assert_array_equal(plan.committed(), plan.planned(2))
    before = plan.planned(2)
    plan.add(asked_at(plan.step)[None])
    np.testing.assert_array_equal(plan.planned(2), before)
    assert plan.planned(3)[2, 0] == 12


def test_nothing_is_committed_before_the_first_chunk_or_without_a_delay() -> None:
    assert len(ActionPlan(Execution(3, delay=2)).committed()) == 0
    plan = ActionPlan(Execution(3))
    plan.take(plan.add(asked_at(0)[None]))
    assert len(plan.committed()) == 0


def test_several_chunks_may_be_late_at_once() -> None:
    plan = ActionPlan(Execution(1, delay=3))
    executed = []
    for _ in range(8):
        actions_NA, _ = plan.take(plan.add(asked_at(plan.step)[None]))
        executed.append(int(actions_NA[0, 0]))
    assert executed == [0, 0, 0, 0, 1, 2, 3, 4]


def test_the_plan_ends_with_its_chunks() -> None:
    plan = ActionPlan(Execution(2))
    assert plan.planned(3).shape == (0, 0)
    plan.take(plan.add(asked_at(0)[None]))
    assert len(plan.planned(99)) == HORIZON - 2


def test_the_draw_nearest_to_the_plan_is_taken() -> None:
    plan = ActionPlan(Execution(4, draws=3), scale_A=np.array([1.0, 100.0]))
    first_TA = np.zeros((HORIZON, 2), np.float32)
    plan.take(plan.add(np.stack([first_TA] * 3)))
    near_TA, far_TA, end_TA = (first_TA.copy() for _ in range(3))
    near_TA[:, 1] = 20.0  # 0.2 in normalized units
    far_TA[:, 0] = 1.0
    end_TA[:4] = 5.0  # far from the plan in the steps that both have
    actions_NA, _ = plan.take(plan.add(np.stack([far_TA, near_TA, end_TA])))
    np.testing.assert_array_equal(actions_NA, near_TA[:4])
    past_TA = first_TA.copy()
    past_TA[4:] = 99.0  # behind the end of the plan, where nothing is compared
    past_TA[:4] = near_TA[4:]
    actions_NA, _ = plan.take(plan.add(np.stack([far_TA, past_TA])))
    np.testing.assert_array_equal(actions_NA, past_TA[:4])


def test_without_a_plan_the_draw_nearest_to_the_others_is_taken() -> None:
    draws_DTA = np.zeros((3, HORIZON, 2), np.float32)
    draws_DTA[:] += np.array([0.0, 1.0, 9.0], np.float32)[:, None, None]
    plan = ActionPlan(Execution(HORIZON, draws=3))
    for _ in range(2):  # a whole chunk is executed: no plan is left
        actions_NA, _ = plan.take(plan.add(draws_DTA))
        np.testing.assert_array_equal(actions_NA, draws_DTA[1])


def test_a_policy_that_does_not_say_how_many() -> None:
    with pytest.raises(ValueError, match="`oatkit policy calibrate POLICY --data DATA` finds it"):
        ActionPlan(Execution("auto")).add(asked_at(0)[None], None)


def test_a_chunk_that_is_too_short() -> None:
    with pytest.raises(ValueError, match="execute is 9, expected 1 to 8, a whole chunk"):
        ActionPlan(Execution(9)).add(asked_at(0)[None])
    with pytest.raises(ValueError, match="delay is 4, expected at most 3"):
        ActionPlan(Execution(5, delay=4)).add(asked_at(0)[None])
