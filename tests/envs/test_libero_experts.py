"""The expert moves a hand without mass; `benchmarks.libero` says how it does in LIBERO."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.libero_experts import CLOSE, OPEN, STEP_METERS, Grip, PickAndPlace
from oatkit.envs.simulator import Observation
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

PLACES = st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(0.0, 0.1))


def observe(hand: np.ndarray, thing: tuple[float, ...], goal: tuple[float, ...]) -> Observation:
    state = np.zeros(28, np.float32)
    state[:3], state[7:10] = thing, goal
    return {STATE: np.append(hand, np.zeros(5)).astype(np.float32), ENVIRONMENT_STATE: state}


@given(PLACES, PLACES)
def test_it_takes_the_object_to_the_goal(
    thing: tuple[float, float, float], goal: tuple[float, float, float]
) -> None:
    expert, hand, grip = PickAndPlace(), np.array([-0.1, 0.0, 0.3]), Grip()
    closed_at, opened_at = [], []
    for _ in range(200):
        action = expert.act(observe(hand, thing, goal))
        assert (np.abs(action) <= 1).all()
        assert not action[3:6].any()
        hand = hand + STEP_METERS * action[:3]
        if action[6] == CLOSE:
            closed_at.append(hand)
        elif closed_at:
            opened_at.append(hand)
    np.testing.assert_allclose(closed_at[0], thing, atol=0.02)
    np.testing.assert_allclose(opened_at[-1], (*goal[:2], grip.drop), atol=0.02)
    assert max(place[2] for place in closed_at) > grip.carry - 0.02
    assert opened_at, "it lets go"


def test_a_hand_that_is_held_up_grasps_where_it_is() -> None:
    expert, thing, goal = PickAndPlace(), (0.0, 0.0, 0.02), (0.2, 0.2, 0.0)
    hand, fingers = np.array([0.0, 0.0, 0.2]), []
    for _ in range(60):
        action = expert.act(observe(hand, thing, goal))
        hand = hand + STEP_METERS * action[:3]
        hand[2] = max(hand[2], 0.06)  # as a tall object does to the palm
        fingers.append(action[6])
    assert fingers[0] == OPEN
    assert CLOSE in fingers


@given(PLACES, PLACES)
def test_a_rim_is_taken_on_the_far_side_and_the_middle_comes_to_the_goal(
    thing: tuple[float, float, float], goal: tuple[float, float, float]
) -> None:
    grip = Grip((0.0, 0.0, 0.03), rim=0.05)
    expert, hand = PickAndPlace(grip), np.array([-0.1, 0.0, 0.3])
    hands, fingers = [], []
    for _ in range(200):
        action = expert.act(observe(hand, thing, goal))
        hand = hand + STEP_METERS * action[:3]
        hands.append(hand)
        fingers.append(action[6])
    taken = hands[fingers.index(CLOSE)] - thing
    np.testing.assert_allclose(np.abs(taken), (0, 0.05, 0.03), atol=0.02)
    if abs(thing[1] - goal[1]) > 0.01:
        assert taken[1] * (thing[1] - goal[1]) > 0
    np.testing.assert_allclose((hands[-1] - taken)[:2], goal[:2], atol=0.03)


@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (0.0, 0.05, 0.01)])
def test_objects_are_taken_where_the_grip_says(offset: tuple[float, float, float]) -> None:
    expert = PickAndPlace(Grip(offset=offset))
    hand, thing = np.array([0.0, 0.0, 0.2]), (0.1, 0.1, 0.05)
    for _ in range(40):
        action = expert.act(observe(hand, thing, (0.2, 0.2, 0.0)))
        if action[6] == CLOSE:
            break
        hand = hand + STEP_METERS * action[:3]
    np.testing.assert_allclose(hand, np.add(thing, offset), atol=0.02)
