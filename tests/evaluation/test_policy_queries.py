"""One batch for all that wait, chunks that are checked, and chunks that do not come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oatkit.evaluation.policy_queries import LATENCY_REPEATS, PolicyQueries
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.evaluation.running_episode import RunningEpisode
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.types import Sampling
from oatkit.types.observation_keys import STATE, TASK
from tests.evaluation.pilot import Mute, Pilot
from tests.evaluation.plane import PLANE, TASKS
from tests.evaluation.plane_episodes import ROLLOUT, plans, run


def waiting(task: str, budget: Any = 4, goal: float = 0.5) -> RunningEpisode:
    """An episode that has seen its first frame."""
    episode = RunningEpisode(EpisodePlan(task, budget, 0), 0, FrameHistory(2))
    episode.history.add({STATE: np.array([0, 0, goal, goal], np.float32)})
    return episode


def test_episodes_of_a_budget_are_asked_for_together() -> None:
    pilot = Pilot()
    episodes = [waiting("near", 2), waiting("far", 4), waiting("far", 2)]
    PolicyQueries(pilot, PLANE, ROLLOUT).ask(episodes)
    asked = [(a["budget"], a[TASK], a[STATE].shape) for a in pilot.asked]
    assert asked == [
        (2, [TASKS["near"], TASKS["far"]], (2, 2, 4)),
        (4, [TASKS["far"]], (1, 2, 4)),
    ]
    assert [episode.tokens for episode in episodes] == [[2], [4], [2]]
    assert {episode.actions[0].shape for episode in episodes} == {(4, 2)}


def test_only_the_row_without_a_chunk_has_an_error() -> None:
    episodes = [waiting("near"), waiting("near", goal=0.9), waiting("far")]
    PolicyQueries(Mute(), PLANE, ROLLOUT).ask(episodes)
    assert [episode.error is None for episode in episodes] == [True, False, True]
    assert [len(episode.actions) for episode in episodes] == [1, 0, 1]


def test_latency_is_that_of_one_observation() -> None:
    pilot = Pilot()
    queries = PolicyQueries(pilot, PLANE, ROLLOUT)
    assert queries.latency_ms(waiting("near"), "auto") == 1.0
    assert [asked["budget"] for asked in pilot.asked] == ["auto"] * (LATENCY_REPEATS + 1)
    assert PolicyQueries(Mute(), PLANE, ROLLOUT).latency_ms(waiting("near", goal=0.9), 4) is None


def test_a_policy_without_a_chunk_fails_the_episode() -> None:
    wanted = plans(6, tasks=("near",), budgets=(4,))
    found = run(wanted, Mute(), num_slots=6)
    failed = [e for e in found.values() if e.error]
    assert 0 < len(failed) < 6
    for e in failed:
        assert (e.is_success, e.steps, e.queries) == (False, 0, 0)
        assert e.error == "1 of 1 sequences did not decode in 10 attempts"
    assert all(e.is_success for e in found.values() if not e.error)


class Spoilt(Pilot):
    def __init__(self, spoil: Any) -> None:
        super().__init__()
        self._spoil = spoil

    def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
        return self._spoil(chunk_BTA)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda c: c[..., :1],
            r"for near, episode 0, step 0 is \(8, 1\), expected \(4 or more",
        ),
        (lambda c: c[:, :3], r"is \(3, 2\), expected \(4 or more, 2\)"),
        (lambda c: c * np.nan, "the chunk for near, episode 0, step 0 is not finite"),
    ],
)
def test_a_wrong_chunk_is_refused(spoil: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(plans(1), Spoilt(spoil))


def test_actions_outside_the_bounds_are_clipped_and_counted() -> None:
    wanted = plans(1, tasks=("far",), budgets=(4,))
    (tame,) = run(wanted, Pilot(), replace(ROLLOUT, sampling=Sampling(0))).values()
    (wild,) = run(wanted, Spoilt(lambda c: 7 * c), replace(ROLLOUT, sampling=Sampling(0))).values()
    assert (tame.is_success, tame.clipped) == (True, 0)
    assert wild.clipped > 0.5
