"""The plan under way: which chunk an action comes from, and with what weight."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oatkit_client.planned_actions import PlannedActions

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.types import Execution

HORIZON = 6
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["auto", "", "2", np.int64(3), np.int64(0), np.float32(0.5), np.bool_(True)]),
)
BLENDS = st.one_of(st.none(), st.floats(0, 3))


def reply(asked_at: int, horizon: int = HORIZON, **more: Any) -> dict[str, Any]:
    """Step t of a chunk that was asked for at s is (s, s + t): where it comes from, and its
    moment."""
    steps_T = np.arange(asked_at, asked_at + horizon, dtype=np.float32)
    return {"actions": np.stack([np.full_like(steps_T, asked_at), steps_T], axis=1), **more}


def test_the_newest_chunk_acts_from_where_it_was_asked_for() -> None:
    plan = PlannedActions(execute=4)
    assert plan.is_due
    plan.add(reply(0), 0)
    taken = [plan.next().tolist() for _ in range(4)]
    assert taken == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert plan.is_due
    assert plan.next().tolist() == [0, 4], "the older chunk goes on until the new one has come"
    plan.add(reply(4), 4)
    assert plan.num_left == 5
    assert plan.next().tolist() == [4, 5], "one step was past"
    plan.clear()
    assert (plan.step, plan.num_left, plan.is_due) == (0, 0, True)


def test_a_blend_is_the_mean_of_all_chunks_of_a_moment() -> None:
    rng = np.random.default_rng(0)
    chunks = {begin: rng.normal(size=(HORIZON, 3)).astype(np.float32) for begin in range(0, 12, 2)}
    plan = PlannedActions(execute=2, blend=0.3)
    for step in range(12):
        if plan.is_due:
            plan.add({"actions": chunks[step]}, step)
        ages = {begin: step - begin for begin in chunks if 0 <= step - begin < HORIZON}
        total = sum(math.exp(-0.3 * age) for age in ages.values())
        expected = sum(math.exp(-0.3 * age) * chunks[b][age] for b, age in ages.items()) / total
        action = plan.next()
        np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)
        assert action.dtype == np.float32


@pytest.mark.parametrize("blend", [1e3, 1e308])
def test_a_large_blend_is_the_newest_chunk(blend: float) -> None:
    plan, newest = PlannedActions(execute=1, blend=blend), PlannedActions(execute=1)
    for step in range(10):
        for one in (plan, newest):
            one.add(reply(step), step)
        assert plan.next().tolist() == newest.next().tolist()


@given(
    execute=st.one_of(st.none(), st.integers(1, HORIZON)),
    blend=BLENDS,
    delays=st.lists(st.integers(0, 2 * HORIZON), min_size=1, max_size=8),
)
def test_every_action_comes_from_a_chunk_that_covers_its_moment(
    execute: int | None, blend: float | None, delays: list[int]
) -> None:
    """However late chunks come; a chunk that is asked for acts on nothing before."""
    plan = PlannedActions(execute, blend)
    for delay in delays:
        asked_at = plan.step
        for _ in range(min(delay, plan.num_left)):
            _check(plan)
        plan.add(reply(asked_at), asked_at)
        while not plan.is_due and plan.num_left:
            _check(plan)
        assert plan.num_left or plan.is_due


def _check(plan: PlannedActions) -> None:
    step = plan.step
    asked_at, moment = plan.next()
    assert moment == pytest.approx(step, abs=1e-4)
    assert step - HORIZON < asked_at <= step


@given(steps=st.lists(st.integers(1, HORIZON), min_size=1, max_size=6), blend=BLENDS)
def test_auto_takes_the_number_of_the_reply(steps: list[int], blend: float | None) -> None:
    plan = PlannedActions("auto", blend)
    for number in steps:
        begin = plan.step
        plan.add(reply(begin, execute_steps=number), begin)
        while not plan.is_due:
            _check(plan)
        assert plan.step - begin == number


@given(
    delay=st.integers(0, HORIZON - 1),
    execute=st.one_of(st.none(), st.just("auto"), st.integers(1, HORIZON)),
    blend=BLENDS,
    worth=st.lists(st.integers(1, HORIZON), min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_a_robot_does_what_was_evaluated(
    delay: int, execute: Any, blend: float | None, worth: list[int], seed: int
) -> None:
    """Both plans give the same actions for the same chunks, late ones included."""
    number = {None: HORIZON // 2, "auto": 1}.get(execute, execute)
    delay = min(delay, HORIZON - number)
    evaluated = ActionPlan(Execution(execute, blend, delay))
    robot = PlannedActions(execute, blend)
    rng = np.random.default_rng(seed)
    coming: list[tuple[int, dict[str, Any]]] = []
    for number in worth:
        chunk_TA = rng.normal(size=(HORIZON, 3)).astype(np.float32)
        number = min(number, HORIZON - delay)
        coming.append((robot.step, {"actions": chunk_TA, "execute_steps": number}))
        for expected_A in evaluated.take(evaluated.add(chunk_TA[None], number))[0]:
            while coming and robot.step >= (coming[0][0] + delay if coming[0][0] else 0):
                asked_at, late = coming.pop(0)
                robot.add(late, asked_at)
            action_A = robot.next()
            assert action_A.dtype == expected_A.dtype
            if blend is None:
                assert action_A.tolist() == expected_A.tolist()
            np.testing.assert_allclose(action_A, expected_A, rtol=1e-5, atol=1e-6)
        assert robot.step == evaluated.step
        assert coming or robot.is_due, "the next chunk is asked for at the same step"


@given(blend=BLENDS, seed=st.integers(0, 99), num_steps=st.integers(0, 2 * HORIZON))
def test_what_is_upcoming_is_what_comes(blend: float | None, seed: int, num_steps: int) -> None:
    rng = np.random.default_rng(seed)
    plan = PlannedActions(2, blend)
    assert plan.upcoming(3) is None
    for asked_at in (0, 2, 4):
        plan.add({"actions": rng.normal(size=(HORIZON, 3))}, asked_at)
        if asked_at < 4:
            plan.next(), plan.next()
    found = plan.upcoming(num_steps)
    comes = [plan.next() for _ in range(min(num_steps, plan.num_left))]
    assert (found is None) == (not comes)
    if found is not None:
        np.testing.assert_array_equal(found, np.stack(comes))


@given(
    delay=st.integers(0, 3),
    blend=BLENDS,
    num_draws=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_the_draw_that_is_taken_goes_on_best(
    delay: int, blend: float | None, num_draws: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(num_draws, HORIZON, 2))
    scale = np.array([1.0, 50.0])
    plan = PlannedActions(2, blend)
    first = rng.normal(size=(HORIZON, 2))
    plan.add({"actions": first}, 0)
    for _ in range(2 + delay):
        plan.next()
    plan.add({"actions": draws[0], "draws": list(draws)}, 2, scale)
    under_way = first[2 + delay :]
    away = (draws[:, delay : delay + len(under_way)] - under_way) / scale
    wanted = draws[np.square(away).mean(axis=(1, 2)).argmin()]
    np.testing.assert_array_equal(plan._chunks[-1][1], wanted)


def test_without_a_plan_the_draw_nearest_to_the_others_is_taken() -> None:
    draws = [np.full((HORIZON, 1), value) for value in (0.0, 1.0, 9.0)]
    plan = PlannedActions(2)
    plan.add({"actions": draws[0], "draws": draws}, 0)
    assert plan.next().tolist() == [1.0]
    evaluated = ActionPlan(Execution(2, draws=3))
    evaluated.add(np.stack(draws).astype(np.float32))
    assert evaluated.take(1)[0].tolist() == [[1.0]]


def test_half_a_chunk_is_the_default() -> None:
    for horizon, half in ((1, 1), (2, 1), (7, 3), (8, 4)):
        plan = PlannedActions()
        plan.add(reply(0, horizon), 0)
        while not plan.is_due:
            plan.next()
        assert plan.step == half


@pytest.mark.parametrize(
    "settings",
    [
        {"execute": 0},
        {"execute": np.int64(-3)},
        {"execute": "half"},
        {"execute": 2.5},
        {"execute": True},
        {"execute": np.arange(2)},
        {"blend": -0.1},
        {"blend": np.float64(-0.5)},
        {"blend": math.nan},
        {"blend": math.inf},
        {"blend": 10**400},
        {"blend": True},
        {"blend": "auto"},
    ],
)
def test_settings_that_are_none(settings: dict[str, Any]) -> None:
    """The robot refuses what an evaluation refuses, in the same words."""
    (name, value) = next(iter(settings.items()))
    with pytest.raises(ValueError, match=f"^{name} is .*, expected a .*number from") as refused:
        PlannedActions(**settings)
    with pytest.raises(ValueError, match=f"^{re.escape(str(refused.value))}$"):
        Execution(**{"steps" if name == "execute" else name: value})


@given(execute=ANYTHING, blend=ANYTHING)
def test_both_sides_take_the_same_settings(execute: Any, blend: Any) -> None:
    assert _refusal(PlannedActions, execute, blend) == _refusal(Execution, execute, blend)


def _refusal(make: Any, execute: Any, blend: Any) -> str | None:
    try:
        make(execute, blend)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("execute", "found", "problem"),
    [
        (7, reply(0), "execute is 7, expected 1 to 6, the steps of a chunk"),
        ("auto", reply(0), "find them with `oatkit policy calibrate` .* or give"),
        (
            "auto",
            reply(0, execute_steps=7),
            "execute_steps of the reply is 7, expected 1 to 6, the steps of a chunk",
        ),
        ("auto", reply(0, execute_steps=0), "execute_steps of the reply is 0, expected 1 to 6"),
        (None, {"actions": np.zeros(3)}, r"actions are \(3,\), expected \(horizon, action_dim\)"),
        (None, {"actions": np.zeros((0, 3))}, r"actions are \(0, 3\), expected"),
    ],
)
def test_replies_that_do_not_fit(execute: Any, found: dict[str, Any], problem: str) -> None:
    plan = PlannedActions(execute)
    with pytest.raises(ValueError, match=problem):
        plan.add(found, 0)
    assert plan.is_due, "nothing of the reply is kept"
    assert plan.num_left == 0
