"""Runs episodes of a pilot in the plane."""

from __future__ import annotations

from typing import Any

from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan, Rollout
from oatkit.types import Budget, EpisodeResult, Execution
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE
from tests.evaluation.pilot import Pilot
from tests.evaluation.plane import PLANE

ROLLOUT = Rollout(Execution(4), state_keys=(STATE, ENVIRONMENT_STATE))


def plans(num_episodes: int = 3, **changed: Any) -> list[EpisodePlan]:
    wanted = {"tasks": ("near", "far"), "budgets": (2, 4, "auto"), **changed}
    return [
        EpisodePlan(task, budget, episode)
        for task in wanted["tasks"]
        for budget in wanted["budgets"]
        for episode in range(num_episodes)
    ]


def run(
    wanted: list[EpisodePlan],
    pilot: Pilot | None = None,
    rollout: Rollout = ROLLOUT,
    **settings: Any,
) -> dict[tuple[str, Budget, int], EpisodeResult]:
    simulator = settings.pop("simulator", PLANE)
    runner = EpisodeRunner(pilot or Pilot(), simulator, rollout, **settings)
    found = list(runner.run(wanted))
    assert len(found) == len(wanted)
    return {(e.task, e.budget, e.episode): e for e in found}
