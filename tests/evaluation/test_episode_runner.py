from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.envs.simulator import evaluation_seed
from oatkit.errors import OatkitError
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.policy_queries import MAX_TURNS
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.types import EpisodeResult, Execution, Sampling
from oatkit.types.observation_keys import STATE
from tests.evaluation.pilot import Pilot
from tests.evaluation.plane import (
    HORIZON,
    MAX_STEPS,
    PLANE,
    TASKS,
    AlwaysDying,
    AlwaysSleeping,
    Broken,
    Plane,
    dying_once,
    sleeping_once,
)
from tests.evaluation.plane_episodes import ROLLOUT, plans, run


def by_hand(plan: EpisodePlan, rollout: Rollout = ROLLOUT) -> tuple[bool, int, float, int]:
    """The same episode in a plain loop: success, steps, best score, queries."""
    pilot, plane = Pilot(), Plane(plan.task)
    frame = plane.reset(evaluation_seed(0, plan.episode))
    frames = [np.concatenate(list(frame.values()))] * 2
    best, steps, queries = 0.0, 0, 0
    while True:
        found = pilot.predict_action_chunk(
            {STATE: np.stack(frames[-2:])[None], "task": [TASKS[plan.task]]},
            budget=plan.budget,
            sampling=rollout.sampling,
            generator=[rollout.query_seed(plan, queries)],
        )
        queries += 1
        for action in found.chunk[0][: rollout.execution.steps]:
            result = plane.step(np.clip(action, -1, 1))
            frames.append(np.concatenate(list(result.observation.values())))
            steps += 1
            best = max(best, result.score or 0)
            if result.is_success or result.is_over:
                return result.is_success, steps, best, queries


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int | None, int], EpisodeResult]:
    return run(plans(), num_workers=2, num_slots=3)


@pytest.fixture(scope="module")
def patience_s() -> float:
    """Well more than a worker takes to start and to answer, however busy the machine is."""
    began = time.monotonic()
    run(plans(1, tasks=("near",), budgets=(4,)))
    return 1 + 3 * (time.monotonic() - began)


def test_episodes_are_those_of_a_plain_loop(found: dict[Any, EpisodeResult]) -> None:
    for plan in plans():
        episode = found[plan.task, plan.budget, plan.episode]
        assert (episode.is_success, episode.steps, episode.score, episode.queries) == by_hand(plan)
    assert 0 < sum(e.is_success for e in found.values()) < len(found)


def test_batched_equals_one_by_one(found: dict[Any, EpisodeResult]) -> None:
    assert run(plans(), num_workers=1, num_slots=1) == found


def test_all_budgets_see_the_same_seeds(found: dict[Any, EpisodeResult]) -> None:
    seeds = {
        budget: [(e.task, e.seed) for e in found.values() if e.budget == budget]
        for budget in (2, 4, "auto")
    }
    assert sorted(seeds[2]) == sorted(seeds[4]) == sorted(seeds["auto"])
    assert {seed for _, seed in seeds[2]} == {1, 3, 5}


@pytest.mark.parametrize("execute", [1, 4, HORIZON])
def test_the_policy_is_asked_every_so_many_steps(execute: int) -> None:
    wanted = plans(1, tasks=("never",), budgets=(4,))
    pilot = Pilot()
    (episode,) = run(wanted, pilot, replace(ROLLOUT, execution=Execution(execute))).values()
    assert (episode.steps, episode.is_success) == (MAX_STEPS, False)
    assert episode.queries == -(-MAX_STEPS // execute)
    assert (episode.tokens, episode.calls, episode.latency_ms) == (4, 4, 1)


def test_history_is_of_successive_frames() -> None:
    pilot = Pilot(history=3)
    rollout = replace(ROLLOUT, execution=Execution(2), sampling=Sampling(0))
    run(plans(1, tasks=("never",), budgets=(4,)), pilot, rollout)
    seen = [
        asked[STATE][0, :, 0] for asked in pilot.asked[MAX_TURNS + 1 :]
    ]  # after measuring latency
    np.testing.assert_array_equal(seen[0], [0, 0, 0])
    np.testing.assert_allclose(seen[1], [0, 0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(seen[2], [0.2, 0.3, 0.4], atol=1e-6)


def test_only_frames_that_are_read_are_rendered() -> None:
    """Without cameras the simulator has no renderer; with them, the frames before a query."""
    pilot = Pilot(cameras={"top": (4, 6)})
    run(plans(1, tasks=("never",), budgets=(4,)), pilot)
    images = [asked["observation.images.top"] for asked in pilot.asked[MAX_TURNS + 1 :][:3]]
    assert images[0].shape == (1, 2, 4, 6, 3)
    assert [image[0, :, 0, 0, 0].tolist() for image in images] == [[0, 0], [3, 4], [7, 8]]


def test_each_camera_arrives_under_its_name_and_in_its_size() -> None:
    pilot = Pilot(cameras={"top": (4, 6), "below": (8, 2)})
    run(plans(1, tasks=("never",), budgets=(4,)), pilot)
    second = pilot.asked[MAX_TURNS + 2]
    for camera, size, expected in (("top", (4, 6), [3, 4]), ("below", (8, 2), [103, 104])):
        images = second[f"observation.images.{camera}"]
        assert images.shape == (1, 2, *size, 3)
        assert [np.unique(image).tolist() for image in images[0]] == [[n] for n in expected]


def test_a_worker_that_dies_is_started_again(
    tmp_path: Path, found: dict[Any, EpisodeResult]
) -> None:
    simulator = replace(PLANE, make=dying_once(tmp_path / "died"))
    runner = EpisodeRunner(Pilot(), simulator, ROLLOUT, num_workers=2, num_slots=2)
    results = list(runner.run(plans()))
    assert (tmp_path / "died").exists()
    assert (runner.worker_deaths, runner.worker_hangs) == (1, 0)
    repeated = [e for e in results if e.repeats]
    assert 1 <= len(repeated) <= 2
    assert all(e.repeats == 1 for e in repeated)
    assert {(e.task, e.budget, e.episode): replace(e, repeats=0) for e in results} == found


def test_a_worker_that_always_dies_is_an_error() -> None:
    with pytest.raises(OatkitError, match=r"near, seed 1, died or hung 4 times"):
        run(plans(1), simulator=replace(PLANE, make=AlwaysDying))


def test_a_worker_that_hangs_is_killed_and_started_again(
    tmp_path: Path, found: dict[Any, EpisodeResult], patience_s: float
) -> None:
    simulator = replace(PLANE, make=sleeping_once(tmp_path / "slept"))
    runner = EpisodeRunner(
        Pilot(), simulator, ROLLOUT, num_workers=2, num_slots=2, timeout_s=patience_s
    )
    results = list(runner.run(plans()))
    assert (tmp_path / "slept").exists()
    assert runner.worker_deaths == 0
    assert runner.worker_hangs >= 1  # a busy machine may start another too slowly
    assert any(e.repeats for e in results)
    assert {(e.task, e.budget, e.episode): replace(e, repeats=0) for e in results} == found


def test_a_worker_that_always_hangs_is_an_error(
    monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr("oatkit.evaluation.episode_runner.MAX_REPEATS", 0)
    slow = replace(PLANE, make=AlwaysSleeping)
    message = f"near, seed 1, died or hung 1 times .* slower than {patience_s:g} s"
    with pytest.raises(OatkitError, match=message):
        run(plans(1), simulator=slow, timeout_s=patience_s)


def test_a_task_may_have_the_simulators_own_spelling(found: dict[Any, EpisodeResult]) -> None:
    simulator = replace(PLANE, task_suffix="-v3")
    wanted = plans(1, tasks=("near-v3",), budgets=(4,))
    assert run(wanted, simulator=simulator) == {("near", 4, 0): found["near", 4, 0]}


def test_an_error_of_the_simulator_is_raised_here() -> None:
    with pytest.raises(RuntimeError, match="no scene for seed 1"):
        run(plans(1), simulator=replace(PLANE, make=Broken))


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "nar"}, "unknown plane task 'nar'; known, closest first: near"),
        ({"execution": Execution(9)}, r"is \(8, 2\), expected \(9 or more, 2\)"),
        ({"execution": Execution("auto")}, "`oatkit policy calibrate POLICY --data DATA` finds it"),
        ({"execution": Execution(4, delay=5)}, r"is \(8, 2\), expected \(9 or more, 2\)"),
        ({"num_workers": 0}, "workers is 0, expected 1 or more"),
        ({"timeout_s": 0}, "timeout_s is 0, expected more than 0"),
        ({"state_keys": (STATE,)}, "reads a state of 4, observation.state of plane has 2"),
        ({"state_keys": ("stat",)}, "unknown part of the observation 'stat'"),
        ({"cameras": {"left": (4, 4)}}, "unknown camera of plane 'left'"),
        ({"tasks": ("Go home.",)}, "the policy was not trained on near: unknown instruction"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, Any], message: str) -> None:
    pilot = Pilot(cameras=change.get("cameras"))
    if "tasks" in change:
        pilot.spec = replace(pilot.spec, tasks=change["tasks"])
    decisive = {k: v for k, v in change.items() if k in ("execution", "state_keys")}
    settings = {k: v for k, v in change.items() if k in ("num_workers", "timeout_s")}
    wanted = [EpisodePlan(change.get("task", "near"), 4, 0)]
    with pytest.raises(ValueError, match=message):
        run(wanted, pilot, replace(ROLLOUT, **decisive), **settings)
