"""States that end with past actions: the same in demonstrations and in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import past_actions
from benchmarks.past_actions import NUM_PAST, Remembering, past_plans
from oatkit.envs.simulator import StepResult
from oatkit.types import Prediction
from oatkit.types.observation_keys import ENVIRONMENT_STATE


class Still:
    """A simulator that shows the same state for ever."""

    def __init__(self, *_: Any) -> None:
        self.render = self.close = None

    def reset(self, seed: int) -> dict[str, Any]:
        return {ENVIRONMENT_STATE: np.full(3, seed, np.float32)}

    def step(self, action: Any) -> StepResult:
        return StepResult(self.reset(0), is_success=False, is_over=False)


def test_the_simulator_shows_the_past_actions_that_demonstrations_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(past_actions, "MetaWorld", Still)
    actions_TA = np.random.default_rng(0).uniform(-1, 1, (12, 4)).astype(np.float32)
    environment = Remembering("drawer-open", {})
    for _ in range(2):  # an episode knows nothing of the one before
        seen = [environment.reset(0)]
        seen += [environment.step(action_A).observation for action_A in actions_TA[:-1]]
        wanted_TS = past_actions.joined(
            np.zeros((12, 3), np.float32), past_actions.past_actions(actions_TA)
        )
        np.testing.assert_array_equal([each[ENVIRONMENT_STATE] for each in seen], wanted_TS)
    assert not wanted_TS[0].any()
    np.testing.assert_array_equal(wanted_TS[-1][3:], actions_TA[-1 - NUM_PAST : -1].ravel())


def test_planned_past_actions_were_planned_before_they_were_due() -> None:
    class Counting:
        """A policy whose actions say which frame it saw, and which step of the chunk they are."""

        def predict_action_chunk(self, seen: Any, **_: Any) -> Prediction:
            state_T1S = seen["observation.state"]
            due_TP = state_T1S[:, :, 0] + np.arange(16)
            chunk_TPA = (due_TP / 100).astype(np.float32)[..., None].repeat(4, axis=2)
            return Prediction(chunk_TPA, None, None, None, None, None, elapsed_ms=0.0)

    frames_TS = np.arange(20, dtype=np.float32)[:, None]
    true_TPA = past_actions.past_actions(frames_TS.repeat(4, axis=1) / 100)
    planned_TPA = past_plans(Counting(), frames_TS, "lift", true_TPA)
    # an action that says which frame it was planned for is the true one
    np.testing.assert_allclose(planned_TPA, true_TPA)
