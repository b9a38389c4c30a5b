"""An episode under way: its last frames, what was executed, and what it led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.evaluation.action_plan import ActionPlan
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.evaluation.simulator_workers import Frame, Report
from oatkit.evaluation.smoothness import mean_jumps
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.types import EpisodeResult, Prediction


@dataclass
class RunningEpisode:
    """An episode under way.

    Attributes:
        plan: The episode that is run.
        slot: Number of its place in the worker process.
        history: The last frames, as many as the policy reads.
        upcoming: Chunks that the next actions come from.
        repeats: How often it was begun again because its worker process died or hung.
        is_over: Whether the simulator has ended it.
        steps: Number of executed actions.
        is_success: Whether the task is solved.
        score: The best score so far; None where the task has no score.
        error: Why the policy had no chunk, which ends the episode.
        calls: Number of stages of each query.
        tokens: Number of tokens of each query.
        attempts: How often the tokens of each query were generated until they decoded.
        latencies_ms: Time of each query.
        actions: Actions to execute after each query, (N, A).
        is_clipped: Whether each of these actions was clipped.
        is_seam: Whether a chunk begins at each of them.
    """

    plan: EpisodePlan
    slot: int
    history: FrameHistory[Frame]
    upcoming: ActionPlan
    repeats: int = 0
    is_over: bool = False
    steps: int = 0
    is_success: bool = False
    score: float | None = None
    error: str | None = None
    calls: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    is_clipped: list[bool] = field(default_factory=list)
    is_seam: list[bool] = field(default_factory=list)

    def add_report(self, report: Report) -> None:
        """Take in what happened in the simulator."""
        for frame in report.frames:
            self.history.add(frame)
        self.is_over = report.is_over
        self.is_success = report.is_success
        self.steps += report.num_steps
        if report.score is not None:
            self.score = report.score if self.score is None else max(self.score, report.score)

    def add_query(
        self,
        found: Prediction,
        row: int,
        actions_NA: NDArray[np.float32],
        is_clipped: list[bool],
        is_seam: list[bool],
    ) -> None:
        """Take in a row of a prediction and the actions to execute after it."""
        self.calls.append(int(found.calls[row]))
        self.tokens.append(int(found.budget[row]))
        self.attempts.append(int(found.attempts[row]))
        self.latencies_ms.append(found.elapsed_ms)
        self.actions.append(actions_NA)
        self.is_clipped += is_clipped
        self.is_seam += is_seam

    @property
    def executed(self) -> NDArray[np.float32]:
        """All executed actions, (N, A)."""
        found = np.concatenate(self.actions) if self.actions else np.zeros((0, 1), np.float32)
        return found[: self.steps]

    def result(self, rollout: Rollout) -> EpisodeResult:
        """The episode as it is written into records."""
        is_seam = self.is_seam[: self.steps]
        seam_jump, inner_jump = mean_jumps(self.executed, is_seam, rollout.action_scale)
        return EpisodeResult(
            task=self.plan.task,
            budget=self.plan.budget,
            episode=self.plan.episode,
            seed=rollout.goal_seed(self.plan),
            is_success=self.is_success,
            score=self.score,
            steps=self.steps,
            queries=len(self.calls),
            calls=fmean(self.calls or [0]),
            tokens=fmean(self.tokens or [0]),
            latency_ms=fmean(self.latencies_ms or [0.0]),
            clipped=fmean(self.is_clipped[: self.steps] or [0]),
            repeats=self.repeats,
            error=self.error,
            redrawn=sum(count > 1 for count in self.attempts),
            seam_jump=seam_jump,
            inner_jump=inner_jump,
        )


def batch_of(episodes: Sequence[RunningEpisode]) -> dict[str, NDArray[Any]]:
    """The last frames of several episodes as a batch with its history, (B, frames, ...)."""
    histories = [episode.history.frames() for episode in episodes]
    return {
        key: np.stack([np.stack([frame[key] for frame in frames]) for frames in histories])
        for key in histories[0][-1]
    }
