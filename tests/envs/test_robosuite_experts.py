"""Our experts solve their tasks, have no memory, and have an answer in every state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.envs.robosuite import TASKS, Robosuite
from oatkit.envs.robosuite_experts import EXPERTS, scripted_expert
from oatkit.envs.simulator import demonstration_seed
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.envs.robosuite_install import skip_without_robosuite


def test_every_task_has_an_expert() -> None:
    assert EXPERTS.keys() == TASKS.keys()
    with pytest.raises(
        ValueError, match="unknown robosuite task 'lif'; known, closest first: lift"
    ):
        scripted_expert("lif")


def any_state(seed: int) -> np.ndarray:
    """Positions in reach of the arm and turns of any kind."""
    rng = np.random.default_rng(seed)

    def pose() -> list[float]:
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turn *= np.linalg.det(turn)
        return [*rng.uniform([-0.3, -0.4, 0.8], [0.3, 0.4, 1.2]), *turn[:, 0], *turn[:, 1]]

    fingers, angles = rng.uniform(0, 0.04, 2) * [1, -1], rng.uniform(0, 0.4, 2)
    return np.array([*pose(), *fingers, *pose(), *pose(), *angles], np.float32)


@pytest.mark.parametrize("task", TASKS)
@given(seed=st.integers(0, 10_000))
def test_an_expert_answers_every_state_within_bounds(task: str, seed: int) -> None:
    state_E = any_state(seed)
    before = state_E.copy()
    action_A = scripted_expert(task)(state_E)
    assert action_A.shape == (7,)
    assert action_A.dtype == np.float32
    assert np.isfinite(action_A).all()
    assert np.abs(action_A).max() <= 1
    np.testing.assert_array_equal(state_E, before)
    np.testing.assert_array_equal(scripted_expert(task)(state_E), action_A)


@pytest.mark.parametrize("task", TASKS)
def test_an_expert_solves_its_task(task: str) -> None:
    skip_without_robosuite()
    environment, expert = Robosuite(task), scripted_expert(task)
    for attempt in range(2):
        observation = environment.reset(demonstration_seed(0, attempt))
        for _ in range(environment.max_steps):
            result = environment.step(expert(observation[ENVIRONMENT_STATE]))
            observation = result.observation
            if result.is_success:
                break
        assert result.is_success
    environment.close()


def test_an_expert_finds_back_after_a_push() -> None:
    skip_without_robosuite()
    environment, expert = Robosuite("stack"), scripted_expert("stack")
    observation = environment.reset(demonstration_seed(0, 1))
    for step in range(environment.max_steps):
        is_pushed = 25 <= step < 32
        push_A = np.array([1, 1, 1, 0, 0, 0, -1], np.float32)
        result = environment.step(push_A if is_pushed else expert(observation[ENVIRONMENT_STATE]))
        observation = result.observation
        if result.is_success:
            break
    assert result.is_success
    assert step > 35
    environment.close()
