"""A plan whose next chunk comes in the background, within the limit of a step."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Mapping

from oatkit_client.chunk_requests import ChunkRequests, ChunkSource
from oatkit_client.planned_actions import PlannedActions
from oatkit_client.protocol import Reply
from oatkit_client.step_limit import PASSING, StepLimit

NUM_REMEMBERED = 4
"""Number of replies of which it is remembered how late they came."""


class BackgroundPlan:
    """Planned actions, the request for more of them, and the limit of each step.

    Args:
        policy: Client or local policy that gives the chunks.
        plan: What the chunks so far planned.
        limit: How long a step may take.
        commit: Whether requests will hold committed actions.

    Attributes:
        plan: What the chunks so far planned.
        reply: The last reply; empty before the first of an episode.
        is_stale: Whether the last action answers no fresh observation.
        num_failures: How many requests failed.
        num_held: How many steps had no chunk in time, and another action.
        num_stale: How many replies were left out because their observation was stale.
        late_steps: How many steps were taken until each of the last replies came.
    """

    def __init__(
        self, policy: ChunkSource, plan: PlannedActions, limit: StepLimit, *, commit: bool = False
    ) -> None:
        self.plan = plan
        self._requests = ChunkRequests(policy, commit=commit)
        self._limit = limit
        self._is_plan_stale = False
        self.reply: Mapping[str, Any] = {}
        self.is_stale = False
        self.num_failures = 0
        self.num_held = 0
        self.num_stale = 0
        self.late_steps: deque[int] = deque(maxlen=NUM_REMEMBERED)

    @property
    def is_pending(self) -> bool:
        """Whether a request is under way."""
        return self._requests.is_pending

    def begin_step(self) -> None:
        """The time of a step runs."""
        self._limit.begin()

    def prepare(self, observe: Callable[[], Mapping[str, Any]], **request: Any) -> None:
        """Ask for the first chunk of an episode and wait for it, without the limit of a step.

        Args:
            observe: Gives what the robot observes.
            request: Further arguments of `infer`.
        """
        self._limit.suspend()
        while not self.plan.num_left:
            if not self.is_pending:
                self.ask(observe(), **request)
            self.receive(is_waiting=True)

    def ask(self, obs: Mapping[str, Any], **request: Any) -> None:
        """Ask for the next chunk; none may be under way."""
        self._requests.ask(obs, self.plan.step, **request)

    def receive(self, *, is_waiting: bool) -> bool:
        """Take in the outcome of the request; False where the step has to do without it.

        A failure is raised, unless actions are left or the robot is to bridge it.

        Args:
            is_waiting: Whether to wait for it until the step's time is over.
        """
        try:
            reply = self._requests.take(self._limit.left_s if is_waiting else 0.0)
        except Exception as error:
            self.num_failures += 1
            if self.plan.num_left and (not is_waiting or self._limit.is_finishing):
                return False
            if isinstance(error, PASSING) and self._limit.is_bridging and self.plan.has_begun:
                return False
            raise
        if reply is not None:
            self.late_steps.append(self.plan.step - self._requests.asked_at)
            self.add(reply, self._requests.asked_at)
        return reply is not None

    def add(self, reply: Reply, asked_at: int) -> None:
        """Take in a reply; one to a stale observation is left out where there is a limit, since the
        robot can ask again, with what it observes now.

        Args:
            reply: Reply with the chunk as `actions`.
            asked_at: Step of the plan at which it was asked for.
        """
        self.reply = reply
        if reply.get("stale", False) and self._limit:
            self.num_stale += 1
        else:
            self.plan.add(reply, asked_at, self._requests.action_scale if "draws" in reply else 1.0)
            self._is_plan_stale = bool(reply.get("stale", False))

    def next(self) -> Any:
        """The action that is planned, (action_dim,)."""
        self.is_stale = self._is_plan_stale
        return self.plan.next()

    def bridge(self) -> Any:
        """The action of a step that has no chunk within its limit, (action_dim,), or an error."""
        if self._limit.is_finishing and self.plan.num_left:
            action = self.plan.next()
        else:
            action = self._limit.bridge(self.plan)
        self.is_stale = True
        self.num_held += 1
        return action

    def reset(self) -> None:
        """An episode ends: its chunks and its request are dropped."""
        self.plan.clear()
        self.reply = {}
        self.is_stale = False
        self._requests.reset()

    def close(self) -> None:
        """Make no more requests."""
        self._requests.close()
