"""How long a step may take, and what the robot does while the next chunk is not there.

step            0 1 2 3 4 5 6 7 8        a: chunk of 4 steps; the next one, b, comes too late
raise           a a a a ! ! b b b        StepLate, which the robot's program has to answer
finish          a a a a ! ! b b b        as "raise", but a `ChunkQueue` executes all of a first
hold            a a a a 3 3 b b b        the action of step 3 again
continue        a a a a + + b b b        each as far from the one before as step 3 from step 2
"""

from __future__ import annotations

import time
from typing import Any, Literal

from oatkit_client.errors import ConnectionFailed, RequestTimeout, ServerBusy, StepLate
from oatkit_client.planned_actions import PlannedActions

Meanwhile = Literal["raise", "finish", "hold", "continue"]
"""What a step does that has no chunk within its limit."""
CHOICES = ("raise", "finish", "hold", "continue")
"""All values of `Meanwhile`."""
RESERVE_S = 0.005
"""Part of the limit in which nothing is waited for: a thread does not wake at once, least of all on
a busy machine."""
MAX_RESERVE = 0.5
"""Largest share of the limit that is kept as such a reserve."""
PASSING = (ConnectionFailed, RequestTimeout, ServerBusy)
"""Errors of a request that the next one may not meet."""


class StepLimit:
    """The limit of each step.

    Args:
        limit_ms: Maximum duration of a step; None to wait for as long as it takes.
        meanwhile: What a step does that has no chunk by then.
    """

    def __init__(self, limit_ms: float | None, meanwhile: Meanwhile) -> None:
        if limit_ms is not None and not limit_ms > 0:
            raise ValueError(f"limit_ms is {limit_ms}, expected more than 0, or None")
        if meanwhile not in CHOICES:
            raise ValueError(f"meanwhile is {meanwhile!r}, expected one of {', '.join(CHOICES)}")
        if limit_ms is None and meanwhile != "raise":
            raise ValueError(
                f"meanwhile is {meanwhile!r}, but there is no limit_ms after which that is done"
            )
        self._limit_ms = limit_ms
        self._meanwhile = meanwhile
        self._end: float | None = None

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return self._limit_ms is not None

    @property
    def is_finishing(self) -> bool:
        """Whether all of a chunk is executed first."""
        return self._meanwhile == "finish"

    @property
    def is_bridging(self) -> bool:
        """Whether there is an action for a step without a chunk."""
        return self._meanwhile in ("hold", "continue")

    def begin(self) -> None:
        """A step begins: its time runs."""
        if self._limit_ms is not None:
            limit_s = self._limit_ms / 1000
            self._end = time.monotonic() + limit_s - min(RESERVE_S, MAX_RESERVE * limit_s)

    def suspend(self) -> None:
        """There is as much time as it takes until the next step begins."""
        self._end = None

    @property
    def left_s(self) -> float | None:
        """Time that is left to wait for a chunk; None for as long as it takes."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def bridge(self, plan: PlannedActions) -> Any:
        """The action of a step without a chunk, (action_dim,), or `StepLate`."""
        if plan.has_begun and self._meanwhile == "hold":
            return plan.hold()
        if plan.has_begun and self._meanwhile == "continue":
            return plan.go_on()
        raise StepLate(
            f"there is no action after {self._limit_ms:g} ms: the chunk is not there yet"
        )
