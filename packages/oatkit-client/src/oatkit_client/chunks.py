"""One action at a time out of chunks: asks for the next one when a chunk ends, or before.

step             0 1 2 3 4 5 6 7 8 9
ChunkQueue       a a a a b b b b c c     asks at 0, 4, 8 and waits for the answer
RealTimeChunks   a a a a a b b b b c     asks at 0, at 3 and at 7 without waiting; b came at
                                         step 5, and its first two actions were past by then
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Mapping, Protocol, Union

from oatkit_client.planned_actions import Execute, PlannedActions
from oatkit_client.protocol import Reply

Observation = Union[Mapping[str, Any], Callable[[], Mapping[str, Any]]]
"""What the robot observes, or a function that observes, which is called only when it is needed."""


class ChunkSource(Protocol):
    """Gives chunks for observations, as `Client` and `LocalPolicy` do."""

    def infer(self, obs: Mapping[str, Any], **request: Any) -> Reply:
        """A reply with the chunk as `actions`, (horizon, action_dim)."""

    def reset(self) -> None:
        """An episode ends: the next request is the first of another."""


class ChunkQueue:
    """Receding-horizon execution: the first steps of a chunk, then the next chunk.

    Args:
        policy: Client or local policy that gives the chunks.
        execute: Number of steps of a chunk that are executed; "auto" for as many as the policy
            finds worth it (`execute_steps` of its reply); by default the first half, as in the
            paper.
        blend: Blends the chunks: an action is the mean of what all chunks planned for that moment,
            weighted by exp(-blend * age), where age is the steps since the chunk was asked for.
            None executes the newest chunk alone.
        request: Further arguments of `infer`, such as `budget` or `deadline_ms`.

    Attributes:
        reply: The last reply; empty before the first.
    """

    def __init__(
        self,
        policy: ChunkSource,
        execute: Execute = None,
        *,
        blend: float | None = None,
        **request: Any,
    ) -> None:
        self._policy = policy
        self._request = request
        self._plan = PlannedActions(execute, blend)
        self.reply: Mapping[str, Any] = {}

    def step(self, observation: Observation) -> Any:
        """The next action, (action_dim,)."""
        if self._plan.is_due:
            self.reply = reply = self._policy.infer(_observed(observation), **self._request)
            self._plan.add(reply, self._plan.step)
        return self._plan.next()

    def reset(self) -> None:
        """An episode ends: what is left of its chunk is dropped."""
        self._plan.clear()
        self._policy.reset()


class RealTimeChunks:
    """The next chunk is asked for while the current one runs, so that the robot never waits.

    A chunk begins at the observation it was asked with: as many of its first actions are left out
    as steps were taken until it came, and where chunks are blended these steps are part of its age.
    If the chunk runs out before the next one has come, `step` waits and counts that. A failed
    request is repeated as long as there are actions left, then raised.

    Args:
        policy: Client or local policy that gives the chunks.
        execute: Number of steps of a chunk after which the next one is asked for; "auto" for
            `execute_steps` of its reply; half of it by default.
        blend: Blends the chunks that plan a moment, as in `ChunkQueue`.
        rate_hz: How often `step` is called a second. Where given, each request has a deadline: the
            time until the chunk runs out.
        request: Further arguments of `infer`, such as `budget`.

    Attributes:
        reply: The last reply; empty before the first of an episode.
        num_waits: How often the robot had to wait, the first chunk of an episode aside.
        num_failures: How many requests failed.
    """

    def __init__(
        self,
        policy: ChunkSource,
        execute: Execute = None,
        *,
        blend: float | None = None,
        rate_hz: float | None = None,
        **request: Any,
    ) -> None:
        self._policy = policy
        self._rate_hz = rate_hz
        self._request = request
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="oatkit-client")
        self._plan = PlannedActions(execute, blend)
        self._pending: Future[Reply] | None = None
        self._asked_at = 0
        self.reply: Mapping[str, Any] = {}
        self.num_waits = 0
        self.num_failures = 0

    def step(self, observation: Observation) -> Any:
        """The next action, (action_dim,); returns at once unless there is none left."""
        if self._pending is not None and self._pending.done():
            self._receive(self._pending)
        if self._pending is None and self._plan.is_due:
            self._ask(observation)
        if not self._plan.num_left:
            self.num_waits += bool(self.reply)
        while not self._plan.num_left:
            if self._pending is None:  # what came was all past
                self._ask(observation)
            assert self._pending is not None
            self._receive(self._pending)
        return self._plan.next()

    def reset(self) -> None:
        """An episode ends: its chunk and its pending request are dropped."""
        if self._pending is not None:
            self._pending.cancel()
        self._pending = None
        self._plan.clear()
        self.reply = {}
        # after a request that is under way, which is of the episode before
        self._asker.submit(self._policy.reset)

    def close(self) -> None:
        """Make no more requests; waits for one that is under way, lest it opens a closed client."""
        if self._pending is not None:
            self._pending.cancel()
        self._asker.shutdown()

    def __enter__(self) -> RealTimeChunks:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask(self, observation: Observation) -> None:
        request = dict(self._request)
        if self._rate_hz is not None and self._plan.num_left:
            request.setdefault("deadline_ms", 1000 * self._plan.num_left / self._rate_hz)
        self._pending = self._asker.submit(self._policy.infer, _observed(observation), **request)
        self._asked_at = self._plan.step

    def _receive(self, pending: Future[Reply]) -> None:
        self._pending = None
        try:
            self.reply = reply = pending.result()
        except Exception:
            self.num_failures += 1
            if not self._plan.num_left:
                raise
            return
        self._plan.add(reply, self._asked_at)


def _observed(observation: Observation) -> Mapping[str, Any]:
    return observation() if callable(observation) else observation
