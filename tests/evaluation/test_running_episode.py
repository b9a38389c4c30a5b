from __future__ import annotations

import numpy as np

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.evaluation.running_episode import RunningEpisode, batch_of
from oatkit.evaluation.simulator_workers import Report
from oatkit.policies import Prediction
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.types import Execution, Sampling


def frame(value: float) -> dict[str, np.ndarray]:
    return {"observation.state": np.array([value], np.float32)}


def episode(*values: float) -> RunningEpisode:
    made = RunningEpisode(EpisodePlan("near", 4, 7), 0, FrameHistory(2), ActionPlan(Execution()))
    made.add_report(Report(tuple(frame(value) for value in values)))
    return made


def prediction(calls: int, tokens: int, attempts: int = 1) -> Prediction:
    empty = np.zeros(2)
    return Prediction(
        chunk=empty,
        ids=None,
        entropy_bits=None,
        budget=np.array([0, tokens]),
        calls=np.array([0, calls]),
        attempts=np.array([0, attempts]),
        elapsed_ms=float(calls),
    )


def test_a_batch_holds_the_last_frames_of_every_episode() -> None:
    batch = batch_of([episode(1), episode(2, 3, 4)])
    np.testing.assert_array_equal(batch["observation.state"][..., 0], [[1, 1], [3, 4]])


def test_the_best_score_and_all_steps_count() -> None:
    run = episode(1)
    assert run.score is None
    for report in (Report((), 4, score=0.7), Report((), 4), Report((), 2, score=0.3)):
        run.add_report(report)
    assert (run.steps, run.score) == (10, 0.7)


def test_results_are_means_over_the_queries() -> None:
    run = episode(1)
    actions = np.zeros((4, 2), np.float32)
    begins = [True, False, False, False]
    run.add_query(prediction(2, 3), 1, actions, [True, False, True, False], begins)
    run.add_query(prediction(4, 4, attempts=3), 1, actions + 3, [False, True, True, True], begins)
    run.add_report(Report((), 5, is_over=True, is_success=True))
    result = run.result(Rollout(Execution(4), Sampling(seed=0), scale=(6.0, 6.0)))
    assert (result.task, result.budget, result.episode, result.seed) == ("near", 4, 7, 15)
    assert (result.queries, result.calls, result.tokens, result.latency_ms) == (2, 3, 3.5, 3)
    assert (result.steps, result.clipped, result.is_success) == (5, 2 / 5, True)
    assert result.redrawn == 1
    assert (result.seam_jump, result.inner_jump) == (0.5, 0.0)


def test_an_episode_without_a_query() -> None:
    run = episode(1)
    run.error = "no chunk"
    result = run.result(Rollout(Execution(4)))
    assert (result.queries, result.calls, result.clipped, result.error) == (0, 0, 0, "no chunk")
    assert (result.seam_jump, result.inner_jump) == (None, None)
