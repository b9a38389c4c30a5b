"""One batch for all that wait, chunks that are checked, and chunks that do not come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.evaluation.policy_queries import MAX_TURNS, PolicyQueries
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.evaluation.running_episode import RunningEpisode
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.types import Execution, Sampling
from oatkit.types.observation_keys import STATE, TASK
from tests.evaluation.pilot import Mute, Pilot
from tests.evaluation.plane import PLANE, TASKS
from tests.evaluation.plane_episodes import ROLLOUT, plans, run

WIDE = replace(PLANE, action_low=(-99.0, -99.0), action_high=(99.0, 99.0))


def waiting(task: str, budget: Any = 4, goal: float = 0.5) -> RunningEpisode:
    """An episode that has seen its first frame."""
    episode = RunningEpisode(
        EpisodePlan(task, budget, 0), 0, FrameHistory(2), ActionPlan(ROLLOUT.execution)
    )
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
    assert queries.latencies_ms([waiting("near"), waiting("far")], (4, "auto")) == {
        4: 1.0,
        "auto": 1.0,
    }
    assert [asked["budget"] for asked in pilot.asked] == [4, "auto"] * (MAX_TURNS + 1)
    assert all(len(asked["task"]) == 1 for asked in pilot.asked)
    assert len({asked["task"][0] for asked in pilot.asked}) == 2, "episodes take turns too"
    mute = PolicyQueries(Mute(), PLANE, ROLLOUT)
    assert mute.latencies_ms([waiting("near", goal=0.9)], (4,)) == {4: None}


def test_a_policy_without_a_chunk_fails_the_episode() -> None:
    wanted = plans(6, tasks=("near",), budgets=(4,))
    found = run(wanted, Mute(), num_slots=6)
    failed = [e for e in found.values() if e.error]
    assert 0 < len(failed) < 6
    for e in failed:
        assert (e.is_success, e.steps, e.queries) == (False, 0, 0)
        assert e.error == "1 of 1 sequences did not decode in 10 attempts"
    assert all(e.is_success for e in found.values() if not e.error)


class Dated(Pilot):
    """Chunks that name the query they are of: the first has only zeros, the next only ones, ..."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0

    def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
        self.queries += 1
        return np.full_like(chunk_BTA, self.queries - 1)


def executed(execution: Execution, pilot: Pilot) -> list[float]:
    """First dimension of what an episode executes after its first three queries."""
    queries = PolicyQueries(pilot, WIDE, replace(ROLLOUT, execution=execution))
    episode = replace(waiting("near"), upcoming=ActionPlan(execution))
    queries.latencies_ms([episode], (4,))
    if isinstance(pilot, Dated):
        pilot.queries = 0
    for _ in range(3):
        queries.ask([episode])
    return np.concatenate(episode.actions)[:, 0].tolist()


@pytest.mark.parametrize(
    ("execution", "wanted"),
    [
        (Execution(2), [0, 0, 1, 1, 2, 2]),
        (Execution(2, delay=1), [0, 0, 0, 1, 1, 2]),
        (Execution(2, delay=3), [0, 0, 0, 0, 0, 1]),
        (Execution(2, blend=0.0), [0, 0, 0.5, 0.5, 1, 1]),
        (Execution("auto"), [0, 0, 0, 1, 1, 1, 2, 2, 2]),
        (Execution("auto", delay=6), [0, 0, 0, 0, 0, 0]),
    ],
)
def test_what_is_executed_after_queries(execution: Execution, wanted: list[float]) -> None:
    pilot = Dated()
    pilot.worth = 3
    assert executed(execution, pilot) == wanted


def test_the_draw_that_goes_on_with_the_plan_is_executed() -> None:
    found = executed(Execution(2, draws=3), Dated())
    assert found[:2] == [5, 5]  # the middle one of 0, 5 and 10
    assert found[2:] == [6, 6, 7, 7]  # of 1, 6 and 11, then of 2, 7 and 12, the nearest
    assert executed(Execution(2, draws=2), Dated()) == [0, 0, 1, 1, 2, 2]


def told(execution: Execution, pilot: Pilot) -> list[Any]:
    """What an episode commits at its queries, first dimension, after those that are timed."""
    executed(execution, pilot)
    committed = [asked["committed"] for asked in pilot.asked[-3:]]
    return [None if c is None else c[:, :, 0].tolist() for c in committed]


def test_the_policy_is_told_what_is_executed_before_its_chunk_acts() -> None:
    assert told(Execution(2, delay=3, commit=True), Dated()) == [None, [[0, 0, 0]], [[0, 1, 1]]]
    assert told(Execution(2, delay=3), Dated()) == [None] * 3
    blended = told(Execution(2, delay=1, blend=0.0, commit=True), Dated())
    assert blended == [None, [[0]], [[0.5]]]


def test_timed_queries_commit_too() -> None:
    """What they commit is the beginning of a chunk: zeros may be no action."""
    pilot = Spoilt(lambda chunk: chunk * 0 + 0.5)
    executed(Execution(2, delay=3, commit=True), pilot)
    plain, *timed = (asked["committed"] for asked in pilot.asked[: MAX_TURNS + 2])
    assert plain is None
    assert all(np.array_equal(committed, np.full((1, 3, 2), 0.5)) for committed in timed)


def test_what_is_told_is_within_bounds() -> None:
    execution = Execution(2, delay=1, commit=True)
    pilot = Spoilt(lambda chunk: chunk * 0 + 7)
    queries = PolicyQueries(pilot, PLANE, replace(ROLLOUT, execution=execution))
    episode = replace(waiting("near"), upcoming=ActionPlan(execution))
    for _ in range(2):
        queries.ask([episode])
    assert pilot.asked[1]["committed"].tolist() == [[list(PLANE.action_high)]]


def test_episodes_that_commit_as_much_are_asked_for_together() -> None:
    execution = Execution(2, delay=1, commit=True)
    pilot = Pilot()
    queries = PolicyQueries(pilot, PLANE, replace(ROLLOUT, execution=execution))
    episodes = [replace(waiting("near"), upcoming=ActionPlan(execution)) for _ in range(3)]
    queries.ask(episodes[:2])
    queries.ask(episodes)
    shapes = [
        a["committed"] if a["committed"] is None else len(a["committed"]) for a in pilot.asked
    ]
    assert shapes == [None, 2, None]


def test_a_policy_that_does_not_say_how_many_steps_are_worth_it() -> None:
    with pytest.raises(ValueError, match="execute 'auto' needs a policy that knows"):
        executed(Execution("auto"), Pilot())


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
