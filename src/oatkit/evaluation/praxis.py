"""A policy behind praxis-eval's `reset` and `act`: one action for every episode at every step.

    policy = PraxisPolicy(oatkit.load_policy("out/policy"), budget=8)
    praxis_eval.evaluate("libero", policy=policy, config=praxis_eval.EvalConfig(...))

praxis-eval brings LIBERO, RoboMimic, RoboCasa and SimplerEnv.

    observation of every episode --> its last frames ---- its queue is empty? --> one batched query
    one action of every episode  <-- its queue of actions <-- its plan, with one more chunk

A policy of praxis-eval cannot end an episode. One whose query gave no chunk (`fast` under strict
decoding) stands still from then on, and `counts` says that it failed.

Nothing here imports praxis-eval: its protocol is known by the names of its methods.

Shape letters: B episodes, P committed step, A action.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import DecodeError, unknown_name
from oatkit.evaluation.action_plan import ActionPlan, cannot_commit
from oatkit.evaluation.executable_actions import Bounds, clip_actions, next_actions
from oatkit.evaluation.rollout import joint_seed
from oatkit.policies import ActingPolicy, Policy, Prediction
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, ExecuteSteps, Execution, Sampling, Schedule
from oatkit.types.observation_keys import STATE, TASK


class ActionSpec(Protocol):
    """Shape, type and bounds of a benchmark's actions, as praxis-eval describes them."""

    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> str: ...
    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...


@dataclass
class QueryCounts:
    """What became of the queries of a policy.

    Attributes:
        queries: How many there were, those without a chunk included.
        redrawn: How many of them generated their tokens again until they decoded.
        failed: The benchmark's words for the task to the number of episodes that had no chunk.
        error: Why the last of these had none.
    """

    queries: int = 0
    redrawn: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    error: str | None = None


@dataclass
class _Episode:
    """An episode under way.

    Attributes:
        name: Id of the episode.
        number: How many episodes had this id, this one included.
        words: The benchmark's words for the task; empty where it has none.
        history: The last frames, as many as the policy reads.
        plan: The chunks so far.
        queue: Actions (A,) yet to be executed.
        queries: How often the policy was asked.
        has_failed: Whether a query gave no chunk, after which there are no more.
    """

    name: str
    number: int
    words: str
    history: FrameHistory[Observations]
    plan: ActionPlan
    queue: deque[NDArray[np.float32]] = field(default_factory=deque)
    queries: int = 0
    has_failed: bool = False


class PraxisPolicy:
    """A policy of oatkit as praxis-eval's `Policy`.

    An episode is known by its id. Where praxis-eval gives none (LIBERO, RoboMimic, RoboCasa,
    MetaWorld), it is known by its place among the observations until the next `reset()`.

    Every frame is read by the policy's own `read`. So a vision-language policy takes instructions
    that it was not trained on, and observations without some of its cameras.

    Args:
        policy: What acts.
        execute: Number of steps of a chunk that are executed before the next query, or "auto" for
            as many as the policy finds worth it; the first half by default, as in the paper.
        blend: Decay by which actions are averaged with those of older chunks; None for no average.
        delay: Number of steps that chunks act late. The benchmark waits for every answer, so that
            this is simulated: the older chunk goes on for as many steps.
        draws: Number of chunks for an observation, of which the one nearest to the plan is taken.
        commit: Whether the policy is told the actions that are executed before a late chunk acts.
        budget: Largest number of tokens, or "auto"; all by default.
        schedule: Generation schedule; the policy's own by default.
        sampling: Rules by which ids are chosen. Random numbers depend on its seed (0 where it has
            none), the episode's id and the query alone.
        state_keys: Parts of the observation that are joined to the policy's state.
        action_spec: Bounds of actions where `act` gets none, as from praxis-eval's `LocalPolicy`.
        instruction: What the policy is told instead of the benchmark's own words for the task, or
            these words to what it is told, for a benchmark of several tasks.

    Attributes:
        counts: What became of all queries so far.
    """

    def __init__(
        self,
        policy: ActingPolicy,
        *,
        execute: ExecuteSteps = None,
        blend: float | None = None,
        delay: int = 0,
        draws: int = 1,
        commit: bool = False,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        state_keys: Sequence[str] = (STATE,),
        action_spec: ActionSpec | None = None,
        instruction: str | Mapping[str, str] | None = None,
    ) -> None:
        self._policy = policy
        self._execution = Execution(execute, blend, delay, draws, commit)
        self._scale_A: NDArray[np.float64] | float = 1.0
        if isinstance(policy, Policy):
            self._scale_A = policy.tokenizer.raw_normalizer.scale
            if commit and not takes_committed(policy):
                raise ValueError(cannot_commit(policy.kind))
        self._budget = budget
        self._schedule = schedule
        self._sampling = sampling
        self._state_keys = tuple(state_keys)
        self._action_spec = action_spec
        self._instruction = instruction
        self._episodes: dict[str, _Episode] = {}
        self._begun: Counter[str] = Counter()
        self._info: list[dict[str, float]] = []
        self.counts = QueryCounts()

    def reset(self, episode_ids: Sequence[str] | None = None) -> None:
        """Forget some episodes, or all: what is observed next is their first frame."""
        for name in list(self._episodes) if episode_ids is None else episode_ids:
            self._episodes.pop(name, None)

    def act(
        self,
        observations: Sequence[Mapping[str, Any]],
        *,
        action_spec: ActionSpec | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        episode_ids: Sequence[str] | None = None,
    ) -> NDArray[Any]:
        """One action for every episode, (B, A), in raw units and within the bounds.

        An episode that had no chunk gets zeros, or what is closest to them within the bounds.

        Args:
            observations: One frame of every episode, by LeRobot's keys.
            action_spec: Bounds of the benchmark's actions.
            policy_kwargs: Another `budget` for this query, or a field of `Sampling`.
            episode_ids: Ids of the episodes, in the order of the observations.
        """
        if not len(observations):
            raise ValueError("there are no observations to act on")
        spec = action_spec or self._action_spec
        episodes = [
            self._observe(name, observation)
            for name, observation in zip(
                _names(episode_ids, len(observations)), observations, strict=True
            )
        ]
        asking = [e for e in episodes if not (e.queue or e.has_failed)]
        for batch in self._batches(asking, spec):
            self._query(batch, spec, *self._changed(policy_kwargs or {}))
        for episode in episodes:
            if episode.has_failed:
                episode.queue.append(_zeros(spec))
        actions_BA = np.stack([episode.queue.popleft() for episode in episodes])
        return actions_BA if spec is None else actions_BA.astype(spec.dtype)

    def consume_inference_info(self) -> list[dict[str, float]]:
        """What the queries since the last call took; the means go into praxis-eval's results."""
        info, self._info = self._info, []
        return info

    def _observe(self, name: str, observation: Mapping[str, Any]) -> _Episode:
        """The episode of a name with one more frame."""
        frame = self._read(observation)
        if name not in self._episodes:
            self._begun[name] += 1
            history: FrameHistory[Observations] = FrameHistory(self._policy.spec.history)
            words = str(observation.get(TASK, ""))
            plan = ActionPlan(self._execution, self._scale_A)
            self._episodes[name] = _Episode(name, self._begun[name], words, history, plan)
        self._episodes[name].history.add(frame)
        return self._episodes[name]

    def _read(self, observation: Mapping[str, Any]) -> Observations:
        """What the policy reads of a frame; benchmarks show more."""
        if self._policy.spec.state_dim and self._state_keys != (STATE,):
            for key in self._state_keys:
                if key not in observation:
                    raise ValueError(unknown_name("part of the observation", key, observation))
            parts = [np.atleast_1d(observation[key]) for key in self._state_keys]
            observation = {**observation, STATE: np.concatenate(parts)}
        told = self._instruction
        if isinstance(told, Mapping):
            told = told.get(str(observation.get(TASK, "")))
        if told is not None:
            observation = {**observation, TASK: told}
        frame = self._policy.read(observation, allow_more=True)
        if not frame.is_single_frame:
            raise ValueError("act() takes one frame of every episode, without batch or history")
        return frame

    def _changed(self, changes: Mapping[str, Any]) -> tuple[Budget, Sampling]:
        """Budget and sampling rules with the changes of one query."""
        names = ["budget", *(field.name for field in fields(Sampling))]
        for name in changes:
            if name not in names:
                raise ValueError(unknown_name("entry of policy_kwargs", name, names))
        rules = {name: value for name, value in changes.items() if name != "budget"}
        return changes.get("budget", self._budget), replace(self._sampling, **rules)

    def _query(
        self,
        episodes: Sequence[_Episode],
        spec: ActionSpec | None,
        budget: Budget,
        sampling: Sampling,
    ) -> None:
        """Fill the queues of some episodes, or note that they failed."""
        try:
            self._fill(episodes, spec, self._predict(episodes, spec, budget, sampling))
        except DecodeError as error:
            if spec is None or spec.shape is None:  # nobody knows how to stand still
                raise
            if len(episodes) > 1:  # which episode it was is found by asking for each
                for episode in episodes:
                    self._query([episode], spec, budget, sampling)
            else:
                self._fail(episodes[0], error)

    def _batches(
        self, episodes: Sequence[_Episode], spec: ActionSpec | None
    ) -> list[list[_Episode]]:
        """Episodes of each call of the policy, which have as many committed actions."""
        batches: dict[int, list[_Episode]] = {}
        for episode in episodes:
            batches.setdefault(len(self._committed(episode, spec)), []).append(episode)
        return list(batches.values())

    def _committed(self, episode: _Episode, spec: ActionSpec | None) -> NDArray[np.float32]:
        """Actions that the policy is told, (P, A), as they will be executed."""
        if not self._execution.commit:
            return np.zeros((0, 0), np.float32)
        planned_PA = episode.plan.committed()
        if not len(planned_PA):
            return planned_PA
        return clip_actions(planned_PA, *_bounds(spec, planned_PA.shape[1]))[0]

    def _predict(
        self,
        episodes: Sequence[_Episode],
        spec: ActionSpec | None,
        budget: Budget,
        sampling: Sampling,
    ) -> Prediction:
        """Chunks for some episodes."""
        committed_BPA = np.stack([self._committed(episode, spec) for episode in episodes])
        return self._policy.predict_action_chunk(
            Observations.cat([Observations.from_frames(e.history.frames()) for e in episodes]),
            budget=budget,
            schedule=self._schedule,
            sampling=sampling,
            generator=[_query_seed(sampling, episode) for episode in episodes],
            draws=self._execution.draws,
            committed=committed_BPA if committed_BPA.shape[1] else None,
        )

    def _fail(self, episode: _Episode, error: DecodeError) -> None:
        """Note that an episode has no chunk."""
        episode.has_failed = True
        self.counts.queries += 1
        self.counts.failed[episode.words] += 1
        self.counts.error = str(error)

    def _fill(
        self, episodes: Sequence[_Episode], spec: ActionSpec | None, found: Prediction
    ) -> None:
        """Fill the queues of some episodes with what is executed before their next query."""
        bounds = _bounds(spec, found.chunk.shape[-1])
        for index, episode in enumerate(episodes):
            what = f"the chunk for episode {episode.name!r}"
            actions_NA, is_clipped, _ = next_actions(episode.plan, found, index, bounds, what)
            episode.queue.extend(actions_NA)
            episode.queries += 1
            self.counts.queries += 1
            self.counts.redrawn += int(found.attempts[index]) > 1
            self._info.append(
                {
                    "calls": float(found.calls[index]),
                    "tokens": float(found.budget[index]),
                    "attempts": float(found.attempts[index]),
                    "clipped": float(np.mean(is_clipped)),
                    "latency_ms": found.elapsed_ms,
                }
            )


def _query_seed(sampling: Sampling, episode: _Episode) -> int:
    """The seed of the random numbers of an episode's next query."""
    entropy = (crc32(episode.name.encode()), episode.number, episode.queries)
    return joint_seed(sampling.seed or 0, *entropy)


def _names(episode_ids: Sequence[str] | None, number: int) -> list[str]:
    names = [f"place {i}" for i in range(number)] if episode_ids is None else list(episode_ids)
    if len(names) != number or len(set(names)) < number:
        raise ValueError(
            f"episode_ids are {names} for {number} observations, expected one each, no two equal"
        )
    return names


def _bounds(spec: ActionSpec | None, action_dim: int) -> Bounds:
    """The lowest and the highest action, (A,) each; infinite where the benchmark has no bounds."""
    shape = (action_dim,) if spec is None or spec.shape is None else spec.shape
    low = -np.inf if spec is None or spec.minimum is None else spec.minimum
    high = np.inf if spec is None or spec.maximum is None else spec.maximum
    return np.full(shape, low, np.float32), np.full(shape, high, np.float32)


def _zeros(spec: ActionSpec | None) -> NDArray[np.float32]:
    """The action that moves nothing where actions are differences, (A,), within the bounds."""
    low_A, high_A = _bounds(spec, 0)
    return np.zeros_like(low_A).clip(low_A, high_A)
