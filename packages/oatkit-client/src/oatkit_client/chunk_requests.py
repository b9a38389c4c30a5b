"""One request for a chunk at a time, in a thread of its own, so that nobody has to wait for it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Mapping, Protocol

import numpy as np

from oatkit_client.protocol import Reply


class ChunkSource(Protocol):
    """Gives chunks for observations, as `Client` and `LocalPolicy` do."""

    @property
    def infer(self) -> Callable[..., Reply]:
        """Takes an observation and options by their names, and gives a reply with the chunk as
        `actions`, (horizon, action_dim)."""

    def reset(self) -> None:
        """An episode ends: the next request is the first of another."""


class ChunkRequests:
    """Asks a policy in the background.

    Args:
        policy: Client or local policy that gives the chunks.
        commit: Whether requests will hold committed actions; a policy that does not take them
            fails the first request, before the robot moves.

    Attributes:
        asked_at: Step of the plan at which the last request was made.
    """

    def __init__(self, policy: ChunkSource, *, commit: bool = False) -> None:
        if not isinstance(commit, (bool, np.bool_)):
            raise ValueError(f"commit is {commit!r}, expected True or False")
        self._policy = policy
        self._is_unsure = bool(commit)
        self._asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="oatkit-client")
        self._pending: Future[Reply] | None = None
        self._last: Future[Any] | None = None
        self.asked_at = 0

    @property
    def action_scale(self) -> Any:
        """Raw units in a normalized one, (action_dim,), as far as the policy tells."""
        return getattr(self._policy, "action_scale", 1.0)

    @property
    def is_pending(self) -> bool:
        """Whether a request was made whose outcome was not taken yet."""
        return self._pending is not None

    def ask(self, obs: Mapping[str, Any], asked_at: int, **request: Any) -> None:
        """Make a request; there must be none.

        Args:
            obs: What the robot observes.
            asked_at: Step of the plan.
            request: Further arguments of `infer`.
        """
        assert self._pending is None
        self._last = self._pending = self._asker.submit(self._infer, obs, request)
        self.asked_at = asked_at

    def take(self, timeout_s: float | None) -> Reply | None:
        """The reply, or None where there is none in time; a request that failed raises its error.

        Args:
            timeout_s: Longest time to wait; None for as long as it takes.
        """
        pending = self._pending
        assert pending is not None
        wait([pending], timeout_s)
        if not pending.done():
            return None
        self._pending = None
        return pending.result()

    def reset(self) -> None:
        """An episode ends: its request is dropped."""
        self._drop()
        if self._last is None or self._last.done():
            self._policy.reset()
        else:  # after a request that is under way, which is of the episode before
            self._last = self._asker.submit(self._policy.reset)

    def close(self) -> None:
        """Make no more requests; waits for one that is under way, lest it opens a closed client."""
        self._drop()
        self._asker.shutdown()

    def _infer(self, obs: Mapping[str, Any], request: Mapping[str, Any]) -> Reply:
        if self._is_unsure:  # here and not in a step: to read the metadata may take long
            _require_committed(self._policy)
            self._is_unsure = False
        return self._policy.infer(obs, **request)

    def _drop(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
        self._pending = None


def _require_committed(policy: ChunkSource) -> None:
    """Raise unless the policy says that it takes committed actions."""
    told: Mapping[str, Any] = getattr(policy, "metadata", {})
    if not told.get("takes_committed", False):
        raise ValueError(
            "commit is for policies whose metadata has takes_committed, which this one has not: "
            "leave commit out"
        )
