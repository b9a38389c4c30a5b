from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.envs.simulator import ENVIRONMENT_STATE_KEY, STATE_KEY, evaluation_seed
from oatkit.errors import OatkitError
from oatkit.evaluation.episodes import Evaluation, Job, Rollout, query_generator
from oatkit.types import EpisodeResult, Sampling
from tests.evaluation.pilot import Mute, Pilot
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

ROLLOUT = Rollout(execute=4, state_keys=(STATE_KEY, ENVIRONMENT_STATE_KEY))


def jobs(num_episodes: int = 3, **changed: Any) -> list[Job]:
    wanted = {"tasks": ("near", "far"), "budgets": (2, 4, "auto"), **changed}
    return [
        Job(task, budget, episode)
        for task in wanted["tasks"]
        for budget in wanted["budgets"]
        for episode in range(num_episodes)
    ]


def run(
    wanted: list[Job], pilot: Pilot | None = None, rollout: Rollout = ROLLOUT, **settings: Any
) -> dict[tuple[str, int | None, int], EpisodeResult]:
    simulator = settings.pop("simulator", PLANE)
    evaluation = Evaluation(pilot or Pilot(), simulator, rollout, **settings)
    found = list(evaluation.run(wanted))
    assert len(found) == len(wanted)
    return {(e.task, e.budget, e.episode): e for e in found}


def by_hand(job: Job, rollout: Rollout = ROLLOUT) -> tuple[bool, int, float, int]:
    """The same episode in a plain loop: success, steps, best score, queries."""
    pilot, plane = Pilot(), Plane(job.task)
    frame = plane.reset(evaluation_seed(rollout.seed, job.episode))
    frames = [np.concatenate(list(frame.values()))] * 2
    best, steps, queries = 0.0, 0, 0
    while True:
        found = pilot.predict_action_chunk(
            {STATE_KEY: np.stack(frames[-2:])[None], "task": [TASKS[job.task]]},
            budget=job.budget,
            sampling=rollout.sampling,
            generator=[query_generator(rollout.seed, job, queries)],
        )
        queries += 1
        for action in found.chunk[0][: rollout.execute]:
            result = plane.step(np.clip(action, -1, 1))
            frames.append(np.concatenate(list(result.observation.values())))
            steps += 1
            best = max(best, result.score or 0)
            if result.is_success or result.is_over:
                return result.is_success, steps, best, queries


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int | None, int], EpisodeResult]:
    return run(jobs(), num_workers=2, num_slots=3)


@pytest.fixture(scope="module")
def patience_s() -> float:
    """Well more than a worker takes to start and to answer, however busy the machine is."""
    began = time.monotonic()
    run(jobs(1, tasks=("near",), budgets=(4,)))
    return 1 + 3 * (time.monotonic() - began)


def test_episodes_are_those_of_a_plain_loop(found: dict[Any, EpisodeResult]) -> None:
    for job in jobs():
        episode = found[job.task, job.budget, job.episode]
        assert (episode.is_success, episode.steps, episode.score, episode.queries) == by_hand(job)
    assert 0 < sum(e.is_success for e in found.values()) < len(found)


def test_batched_equals_one_by_one(found: dict[Any, EpisodeResult]) -> None:
    assert run(jobs(), num_workers=1, num_slots=1) == found


def test_all_budgets_see_the_same_seeds(found: dict[Any, EpisodeResult]) -> None:
    seeds = {
        budget: [(e.task, e.seed) for e in found.values() if e.budget == budget]
        for budget in (2, 4, "auto")
    }
    assert sorted(seeds[2]) == sorted(seeds[4]) == sorted(seeds["auto"])
    assert {seed for _, seed in seeds[2]} == {1, 3, 5}


def test_the_draws_of_budgets_are_the_same() -> None:
    draws = [query_generator(0, Job("near", budget, 1), 2).initial_seed() for budget in (1, "auto")]
    others = [
        query_generator(*args).initial_seed()
        for args in (
            (1, Job("near", 1, 1), 2),
            (0, Job("far", 1, 1), 2),
            (0, Job("near", 1, 0), 2),
            (0, Job("near", 1, 1), 3),
        )
    ]
    assert draws[0] == draws[1]
    assert len({draws[0], *others}) == 5


@pytest.mark.parametrize("execute", [1, 4, HORIZON])
def test_the_policy_is_asked_every_so_many_steps(execute: int) -> None:
    wanted = jobs(1, tasks=("never",), budgets=(4,))
    pilot = Pilot()
    (episode,) = run(wanted, pilot, replace(ROLLOUT, execute=execute)).values()
    assert (episode.steps, episode.is_success) == (MAX_STEPS, False)
    assert episode.queries == -(-MAX_STEPS // execute)
    assert (episode.tokens, episode.calls, episode.latency_ms) == (4, 4, 1)


def test_history_is_of_successive_frames() -> None:
    pilot = Pilot(history=3)
    rollout = replace(ROLLOUT, execute=2, sampling=Sampling(0))
    run(jobs(1, tasks=("never",), budgets=(4,)), pilot, rollout)
    seen = [asked[STATE_KEY][0, :, 0] for asked in pilot.asked[6:]]  # after measuring latency
    np.testing.assert_array_equal(seen[0], [0, 0, 0])
    np.testing.assert_allclose(seen[1], [0, 0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(seen[2], [0.2, 0.3, 0.4], atol=1e-6)


def test_only_frames_that_are_read_are_rendered() -> None:
    """Without cameras the simulator has no renderer; with them, the frames before a query."""
    pilot = Pilot(cameras={"top": (4, 6)})
    run(jobs(1, tasks=("never",), budgets=(4,)), pilot)
    images = [asked["observation.images.top"] for asked in pilot.asked[6:9]]
    assert images[0].shape == (1, 2, 4, 6, 3)
    assert [image[0, :, 0, 0, 0].tolist() for image in images] == [[0, 0], [3, 4], [7, 8]]


def test_each_camera_arrives_under_its_name_and_in_its_size() -> None:
    pilot = Pilot(cameras={"top": (4, 6), "below": (8, 2)})
    run(jobs(1, tasks=("never",), budgets=(4,)), pilot)
    second = pilot.asked[7]
    for camera, size, expected in (("top", (4, 6), [3, 4]), ("below", (8, 2), [103, 104])):
        images = second[f"observation.images.{camera}"]
        assert images.shape == (1, 2, *size, 3)
        assert [np.unique(image).tolist() for image in images[0]] == [[n] for n in expected]


def test_a_worker_that_dies_is_started_again(
    tmp_path: Path, found: dict[Any, EpisodeResult]
) -> None:
    simulator = replace(PLANE, make=dying_once(tmp_path / "died"))
    evaluation = Evaluation(Pilot(), simulator, ROLLOUT, num_workers=2, num_slots=2)
    results = list(evaluation.run(jobs()))
    assert (tmp_path / "died").exists()
    assert (evaluation.worker_deaths, evaluation.worker_hangs) == (1, 0)
    repeated = [e for e in results if e.repeats]
    assert 1 <= len(repeated) <= 2
    assert all(e.repeats == 1 for e in repeated)
    assert {(e.task, e.budget, e.episode): replace(e, repeats=0) for e in results} == found


def test_a_worker_that_always_dies_is_an_error() -> None:
    with pytest.raises(OatkitError, match=r"near, seed 1, died or hung 4 times"):
        run(jobs(1), simulator=replace(PLANE, make=AlwaysDying))


def test_a_worker_that_hangs_is_killed_and_started_again(
    tmp_path: Path, found: dict[Any, EpisodeResult], patience_s: float
) -> None:
    simulator = replace(PLANE, make=sleeping_once(tmp_path / "slept"))
    evaluation = Evaluation(
        Pilot(), simulator, ROLLOUT, num_workers=2, num_slots=2, timeout_s=patience_s
    )
    results = list(evaluation.run(jobs()))
    assert (tmp_path / "slept").exists()
    assert evaluation.worker_deaths == 0
    assert evaluation.worker_hangs >= 1  # a busy machine may start another too slowly
    assert any(e.repeats for e in results)
    assert {(e.task, e.budget, e.episode): replace(e, repeats=0) for e in results} == found


def test_a_worker_that_always_hangs_is_an_error(
    monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr("oatkit.evaluation.episodes.MAX_REPEATS", 0)
    slow = replace(PLANE, make=AlwaysSleeping)
    message = f"near, seed 1, died or hung 1 times .* slower than {patience_s:g} s"
    with pytest.raises(OatkitError, match=message):
        run(jobs(1), simulator=slow, timeout_s=patience_s)


def test_a_task_may_have_the_simulators_own_spelling(found: dict[Any, EpisodeResult]) -> None:
    simulator = replace(PLANE, task_suffix="-v3")
    wanted = jobs(1, tasks=("near-v3",), budgets=(4,))
    assert run(wanted, simulator=simulator) == {("near", 4, 0): found["near", 4, 0]}


def test_an_error_of_the_simulator_is_raised_here() -> None:
    with pytest.raises(RuntimeError, match="no scene for seed 1"):
        run(jobs(1), simulator=replace(PLANE, make=Broken))


def test_a_policy_without_a_chunk_fails_the_episode() -> None:
    wanted = jobs(6, tasks=("near",), budgets=(4,))
    found = run(wanted, Mute(), num_slots=6)
    failed = [e for e in found.values() if e.error]
    assert 0 < len(failed) < 6
    for e in failed:
        assert (e.is_success, e.steps, e.queries) == (False, 0, 0)
        assert e.error == "1 of 1 sequences did not decode in 10 draws"
    assert all(e.is_success for e in found.values() if not e.error)


# Actions


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
        run(jobs(1), Spoilt(spoil))


def test_actions_outside_the_bounds_are_clipped_and_counted() -> None:
    wanted = jobs(1, tasks=("far",), budgets=(4,))
    (tame,) = run(wanted, Pilot(), replace(ROLLOUT, sampling=Sampling(0))).values()
    (wild,) = run(wanted, Spoilt(lambda c: 7 * c), replace(ROLLOUT, sampling=Sampling(0))).values()
    assert (tame.is_success, tame.clipped) == (True, 0)
    assert wild.clipped > 0.5


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "nar"}, "unknown plane task 'nar'; known, closest first: near"),
        ({"execute": 0}, "execute is 0, expected 1 or more"),
        ({"num_workers": 0}, "workers is 0, expected 1 or more"),
        ({"timeout_s": 0}, "timeout_s is 0, expected more than 0"),
        ({"state_keys": (STATE_KEY,)}, "reads a state of 4, observation.state of plane has 2"),
        ({"state_keys": ("stat",)}, "unknown part of the observation 'stat'"),
        ({"cameras": {"left": (4, 4)}}, "unknown camera of plane 'left'"),
        ({"tasks": ("Go home.",)}, "the policy was not trained on near: unknown instruction"),
    ],
)
def test_what_does_not_fit_is_said(change: dict[str, Any], message: str) -> None:
    pilot = Pilot(cameras=change.get("cameras"))
    if "tasks" in change:
        pilot.spec = replace(pilot.spec, tasks=change["tasks"])
    decisive = {k: v for k, v in change.items() if k in ("execute", "state_keys")}
    settings = {k: v for k, v in change.items() if k in ("num_workers", "timeout_s")}
    wanted = [Job(change.get("task", "near"), 4, 0)]
    with pytest.raises(ValueError, match=message):
        run(wanted, pilot, replace(ROLLOUT, **decisive), **settings)


def test_a_film_shows_the_episode(tmp_path: Path) -> None:
    from oatkit.data.video import read_frames

    job = Job("near", 4, 0, film=tmp_path / "films" / "a.mp4")
    found = run([job])["near", 4, 0]
    assert asdict(found) == asdict(run([replace(job, film=None)])["near", 4, 0])
    last = found.steps / PLANE.fps
    frames = read_frames(tmp_path / "films" / "a.mp4", [0.0, last], fps=PLANE.fps)
    assert frames.shape == (2, 240, 240, 3)
    assert [int(frame.mean().round()) for frame in frames] == pytest.approx([0, found.steps], abs=3)
