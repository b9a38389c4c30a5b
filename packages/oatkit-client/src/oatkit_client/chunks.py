"""One action at a time out of chunks: asks for the next one when a chunk ends, or before.

step             0 1 2 3 4 5 6 7 8 9
ChunkQueue       a a a a b b b b c c     asks at 0, 4, 8 and waits for the answer
RealTimeChunks   a a a a a b b b b c     asks at 0, at 3 and at 7 without waiting; b came at
                                         step 5, and its first two actions were past by then
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, TypeVar, Union

from oatkit_client.background_plan import BackgroundPlan
from oatkit_client.chunk_requests import ChunkSource
from oatkit_client.planned_actions import BLEND, Execute, PlannedActions
from oatkit_client.step_limit import Meanwhile, StepLimit

Observation = Union[Mapping[str, Any], Callable[[], Mapping[str, Any]]]
"""What the robot observes, or a function that observes, which is called only when it is needed."""


Self = TypeVar("Self", bound="_ChunkExecution")


class _ChunkExecution:
    """What both ways to execute chunks offer beside `step`.

    They inherit it: handing on eight members one by one, in each of them, said nothing more.

    Args:
        background: The plan, and the requests for more of it.
        request: Further arguments of `infer`.
    """

    def __init__(self, background: BackgroundPlan, request: Mapping[str, Any]) -> None:
        self._background = background
        self._plan = background.plan
        self._request = request

    @property
    def reply(self) -> Mapping[str, Any]:
        """The last reply; empty before the first of an episode."""
        return self._background.reply

    @property
    def is_stale(self) -> bool:
        """Whether the last action answers no fresh observation: it was made without a chunk in
        time, or the observation is from before a lost connection."""
        return self._background.is_stale

    @property
    def num_failures(self) -> int:
        """How many requests failed."""
        return self._background.num_failures

    @property
    def num_held(self) -> int:
        """How many steps had no chunk in time, and another action."""
        return self._background.num_held

    @property
    def num_stale(self) -> int:
        """How many replies were left out, under a limit, because their observation was from before
        a lost connection."""
        return self._background.num_stale

    def prepare(self, observation: Observation) -> None:
        """Ask for the first chunk of an episode and wait for it, without the limit of a step."""
        self._background.prepare(lambda: _observed(observation), **self._request)

    def reset(self) -> None:
        """An episode ends: its chunk and its pending request are dropped."""
        self._background.reset()

    def close(self) -> None:
        """Make no more requests; waits for one that is under way, lest it opens a closed client.
        A `ChunkQueue` needs it where there is a limit, or after `prepare`."""
        self._background.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class ChunkQueue(_ChunkExecution):
    """Receding-horizon execution: the first steps of a chunk, then the next chunk.

    Args:
        policy: Client or local policy that gives the chunks.
        execute: Number of steps of a chunk that are executed; "auto" for as many as the policy
            finds worth it (`execute_steps` of its reply); by default the first half, as in the
            paper.
        blend: Blends the chunks: an action is the mean of what all chunks planned for that moment,
            weighted by exp(-blend * age), where age is the steps since the chunk was asked for.
            None executes the newest chunk alone.
        limit_ms: Maximum duration of `step`, whatever happens to the server; it then asks in a
            thread of its own, so that a queue with a limit has to be closed. None waits for the
            answer.
        meanwhile: What a step does that has no chunk by then: "raise" `StepLate`; "finish" the
            chunk, then raise; "hold" the last action; "continue" with the last difference between
            actions.
        request: Further arguments of `infer`, such as `budget`, `deadline_ms` or `draws`.
    """

    def __init__(
        self,
        policy: ChunkSource,
        execute: Execute = None,
        *,
        blend: float | None = BLEND,
        limit_ms: float | None = None,
        meanwhile: Meanwhile = "raise",
        **request: Any,
    ) -> None:
        self._policy = policy
        self._limit = StepLimit(limit_ms, meanwhile)
        plan = PlannedActions(execute, blend)
        super().__init__(BackgroundPlan(policy, plan, self._limit), request)

    def step(self, observation: Observation) -> Any:
        """The next action, (action_dim,)."""
        background = self._background
        if not self._limit:
            if self._plan.is_due:
                reply = self._policy.infer(_observed(observation), **self._request)
                background.add(reply, self._plan.step)
            return background.next()
        background.begin_step()
        while self._plan.is_due:
            if not background.is_pending:
                background.ask(_observed(observation), **self._request)
            if not background.receive(is_waiting=True):
                return background.bridge()
        return background.next()


class RealTimeChunks(_ChunkExecution):
    """The next chunk is asked for while the current one runs, so that the robot never waits.

    A chunk begins at the observation it was asked with: as many of its first actions are left out
    as steps were taken until it came, and where chunks are blended these steps are part of its age.
    If the chunk runs out before the next one has come, `step` waits and counts that, for `limit_ms`
    at most. A failed request is repeated as long as there are actions left, then raised, unless
    `meanwhile` bridges it.

    Args:
        policy: Client or local policy that gives the chunks.
        execute: Number of steps of a chunk after which the next one is asked for; "auto" for
            `execute_steps` of its reply; half of it by default.
        blend: Blends the chunks that plan a moment, as in `ChunkQueue`.
        rate_hz: How often `step` is called a second. Where given, each request has a deadline: the
            time until the chunk runs out. A `deadline_ms` among the further arguments wins.
        limit_ms: Maximum duration of `step`, whatever happens to the server; None waits for as long
            as it takes. It is the robot's own limit, which the server is not told.
        meanwhile: What a step does that has no chunk by then, as in `ChunkQueue`; the chunk under
            way is always finished first.
        commit: Whether a request tells the policy which actions will be executed until its chunk
            comes, so that the chunk begins with them: those of as many steps as the latest of the
            last four replies took, one at least. It is for policies whose metadata has
            `takes_committed`; the first request of others, and of a `LocalPolicy`, raises.
        request: Further arguments of `infer`, such as `budget`, `deadline_ms` or `draws`.

    Attributes:
        num_waits: How many steps had to wait, those of an episode's first chunk aside.
    """

    def __init__(
        self,
        policy: ChunkSource,
        execute: Execute = None,
        *,
        blend: float | None = BLEND,
        rate_hz: float | None = None,
        limit_ms: float | None = None,
        meanwhile: Meanwhile = "raise",
        commit: bool = False,
        **request: Any,
    ) -> None:
        plan, limit = PlannedActions(execute, blend), StepLimit(limit_ms, meanwhile)
        super().__init__(BackgroundPlan(policy, plan, limit, commit=commit), request)
        self._rate_hz = rate_hz
        self._commit = commit
        self.num_waits = 0

    def step(self, observation: Observation) -> Any:
        """The next action, (action_dim,); returns at once unless there is none left."""
        background = self._background
        background.begin_step()
        if background.is_pending:
            background.receive(is_waiting=False)
        if not background.is_pending and self._plan.is_due:
            self._ask(observation)
        if not self._plan.num_left:
            self.num_waits += bool(self.reply)
        while not self._plan.num_left:
            if not background.is_pending:  # what came was all past, or stale
                self._ask(observation)
            if not background.receive(is_waiting=True):
                return background.bridge()
        return background.next()

    def _ask(self, observation: Observation) -> None:
        request = dict(self._request)
        if self._rate_hz is not None and self._plan.num_left:
            request.setdefault("deadline_ms", 1000 * self._plan.num_left / self._rate_hz)
        if self._commit and self._plan.num_left:
            request["committed"] = self._plan.upcoming(max([1, *self._background.late_steps]))
        self._background.ask(_observed(observation), **request)


def _observed(observation: Observation) -> Mapping[str, Any]:
    return observation() if callable(observation) else observation
