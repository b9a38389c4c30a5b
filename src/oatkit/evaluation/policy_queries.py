"""Queries of the policy: one batch of all episodes that wait for a chunk at the same budget.

Shape letters: B episode, P committed step, A action.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import DecodeError
from oatkit.evaluation.episode_recording import EpisodeRecorder
from oatkit.evaluation.executable_actions import clip_actions, next_actions
from oatkit.evaluation.policy_view import needs_task, policy_view
from oatkit.evaluation.queried_policy import QueriedPolicy
from oatkit.evaluation.rollout import Rollout
from oatkit.evaluation.running_episode import RunningEpisode, batch_of
from oatkit.types import Budget, Prediction
from oatkit.types.observation_keys import STATE, TASK

MIN_TURNS, MAX_TURNS = 5, 25
"""How often the time of a query is measured at each budget; more than `MIN_TURNS` within
`LATENCY_S`."""
LATENCY_S = 2.0


class PolicyQueries:
    """Asks a policy for the actions of episodes.

    Args:
        policy: What acts.
        simulator: Simulator that the policy acts in.
        rollout: Protocol of an episode.
        recorder: Takes in every query; None for no recording.
        is_batched: Whether episodes that wait at the same time are one batch. The last digits of a
            chunk depend on how many are predicted at once.

    Attributes:
        view: What the policy reads of the simulator.
    """

    def __init__(
        self,
        policy: QueriedPolicy,
        simulator: SimulatorKind,
        rollout: Rollout,
        recorder: EpisodeRecorder | None = None,
        *,
        is_batched: bool = True,
    ) -> None:
        self._recorder = recorder
        self._is_batched = is_batched
        self._policy = policy
        self._simulator = simulator
        self._rollout = rollout
        self.view = policy_view(policy.spec, simulator, rollout.state_keys)

    def ask(self, episodes: Sequence[RunningEpisode]) -> None:
        """Give every episode its next actions, or the reason why there are none as its `error`."""
        for budget, rows in self._batches(episodes):
            try:
                self._add_actions(rows, self._predict(rows, budget))
            except DecodeError:  # which row it was is found by asking for each
                for row in rows:
                    try:
                        self._add_actions([row], self._predict([row], budget))
                    except DecodeError as error:
                        row.error = str(error)

    def _batches(
        self, episodes: Sequence[RunningEpisode]
    ) -> Iterator[tuple[Budget, list[RunningEpisode]]]:
        """Budget and episodes of each call of the policy, which have as many committed actions."""
        if not self._is_batched:
            yield from ((episode.plan.budget, [episode]) for episode in episodes)
            return
        batches: dict[tuple[Budget, int], list[RunningEpisode]] = {}
        for episode in episodes:
            key = (episode.plan.budget, len(self._committed(episode)))
            batches.setdefault(key, []).append(episode)
        yield from ((budget, rows) for (budget, _), rows in batches.items())

    def _committed(self, episode: RunningEpisode) -> NDArray[np.float32]:
        """Actions that the policy is told, (P, A), as they will be executed."""
        low_A, high_A = self._simulator.bounds
        nothing_PA = np.zeros((0, len(low_A)), np.float32)
        if not self._rollout.execution.commit:
            return nothing_PA
        planned_PA = episode.upcoming.committed()
        return clip_actions(planned_PA, low_A, high_A)[0] if len(planned_PA) else nothing_PA

    def latencies_ms(
        self, episodes: Sequence[RunningEpisode], budgets: Sequence[Budget]
    ) -> dict[Budget, float | None]:
        """Median time of a query for one episode alone; None where none of them gave a chunk.

        Budgets take turns, so that what else the machine does for a moment slows all of them down.
        Where episodes will commit actions, these queries commit as many of a predicted chunk.
        """
        execution = self._rollout.execution
        committed_BPA = np.zeros((1, 0, len(self._simulator.bounds[0])), np.float32)
        if execution.commit and execution.delay:
            found = self._predict(episodes[:1], budgets[0], committed_BPA)
            committed_BPA = np.asarray(found.chunk, np.float32)[:, : execution.delay]
        times: dict[Budget, list[float]] = {budget: [] for budget in budgets}
        began = time.monotonic()
        for turn in range(MAX_TURNS + 1):  # the first warms up
            if turn > MIN_TURNS and time.monotonic() - began > LATENCY_S:
                break
            episode = episodes[turn % len(episodes)]
            for budget in budgets:
                with suppress(DecodeError):
                    elapsed_ms = self._predict([episode], budget, committed_BPA).elapsed_ms
                    times[budget] += [elapsed_ms] if turn else []
        return {budget: float(np.median(ms)) if ms else None for budget, ms in times.items()}

    def _predict(
        self,
        episodes: Sequence[RunningEpisode],
        budget: Budget,
        committed_BPA: NDArray[np.float32] | None = None,
    ) -> Prediction:
        """Chunks of episodes, with the committed actions of their plans by default."""
        if committed_BPA is None:
            committed_BPA = np.stack([self._committed(episode) for episode in episodes])
        observation: dict[str, Any] = batch_of(episodes)
        self._require_state(observation)
        if needs_task(self._policy.spec, self._simulator):
            observation[TASK] = [self._simulator.tasks[e.plan.task] for e in episodes]
        return self._policy.predict_action_chunk(
            observation,
            budget=budget,
            schedule=self._rollout.schedule,
            sampling=self._rollout.sampling,
            generator=[self._rollout.query_seed(e.plan, len(e.calls)) for e in episodes],
            draws=self._rollout.execution.draws,
            committed=committed_BPA if committed_BPA.shape[1] else None,
        )

    def _require_state(self, observation: dict[str, Any]) -> None:
        keys, wanted = self.view.state_keys, self._policy.spec.state_dim
        if keys and wanted is not None and observation[STATE].shape[-1] != wanted:
            raise ValueError(
                f"the policy reads a state of {wanted}, {' + '.join(keys)} of "
                f"{self._simulator.name} has {observation[STATE].shape[-1]}: name what it was "
                "trained on with --state-key"
            )

    def _add_actions(self, episodes: Sequence[RunningEpisode], found: Prediction) -> None:
        """Add a chunk to the plan of each episode and give it the next actions, within bounds."""
        for row, episode in enumerate(episodes):
            plan = episode.plan
            what = f"the chunk for {plan.task}, episode {plan.episode}, step {episode.steps}"
            executed = next_actions(episode.upcoming, found, row, self._simulator.bounds, what)
            if self._recorder is not None:
                self._recorder.add_query(episode, found, row)
            episode.add_query(found, row, *executed)
