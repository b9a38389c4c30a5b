"""Requests of all connections, answered in batches by one thread of their own.

    loop    submit --> waiting requests, most urgent first
    thread                take a batch --> predict --> answers --> loop

While a batch is computed others gather, so batches grow with the load and nobody waits for one to
fill. A request without a deadline counts as due `PATIENCE_S` after it came.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from oatkit.errors import OatkitError
from oatkit.policies.observation.observation_spec import blank_observation
from oatkit.serve.latency_table import Pace
from oatkit.serve.request import Request
from oatkit.serve.served_policy import ServedPolicy, served_budgets
from oatkit.types import Sampling
from oatkit.types.observation_keys import TASK

PATIENCE_S = 1.0
LEAST_MS = 0.01
RESERVE = 0.03
"""Share of the time left that is not planned for: a prediction may take longer than expected, and
the reply is read later than it leaves."""


class BusyError(OatkitError):
    """The queue is full, or the server is shutting down."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a request gets.

    Attributes:
        actions: (horizon, action_dim) raw units.
        tokens: The ids they were decoded from.
        entropy_bits: How uncertain each was.
        calls: Stages that were run for them.
        batch_size: How many requests were answered together.
        queue_ms: From the message to the begin of the prediction.
        infer_ms: The prediction.
        done: When it ended, on the clock of `time.perf_counter`.
    """

    actions: Any
    tokens: list[int]
    entropy_bits: list[float]
    calls: int
    batch_size: int
    queue_ms: float
    infer_ms: float
    done: float


@dataclass(eq=False)
class _Waiting:
    request: Request
    future: asyncio.Future[Answer]

    @property
    def due(self) -> float:
        deadline = self.request.deadline
        return self.request.received + PATIENCE_S if deadline is None else deadline


class Batcher:
    """Predicts off the event loop.

    Args:
        policy: What acts; only one thread calls it.
        max_batch: The most requests that are answered together.
        max_queue: The most that may wait.
        sampling: How ids are chosen.
    """

    def __init__(
        self,
        policy: ServedPolicy,
        *,
        max_batch: int,
        max_queue: int,
        sampling: Sampling = Sampling(),
    ) -> None:
        self._policy = policy
        self._max_queue = max_queue
        self._sampling = sampling
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._busy_since: float | None = None
        self.pace = Pace(max_batch, served_budgets(policy))

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def is_well(self, timeout_s: float) -> bool:
        """Whether the thread lives and its present prediction takes no longer than `timeout_s`."""
        since = self._busy_since
        is_stuck = since is not None and time.perf_counter() - since > timeout_s
        return self._thread is not None and self._thread.is_alive() and not is_stuck

    def start(self) -> None:
        """Start the thread and wait until it is warm."""
        is_warm = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(is_warm,), name="oatkit-inference", daemon=True
        )
        self._thread.start()
        is_warm.wait()
        if self._failure is not None:
            raise self._failure

    def submit(self, request: Request) -> asyncio.Future[Answer]:
        """Put a request into the queue; cancel the future to take it out again."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_closed:
                raise BusyError("busy: the server is shutting down")
            if len(self._waiting) >= self._max_queue:
                raise BusyError(
                    f"busy: {len(self._waiting)} requests wait already; ask again later"
                )
            self._waiting.append(_Waiting(request, future))
            self._changed.notify()
        return future

    def close(self, timeout_s: float | None = None) -> None:
        """Take no more requests, answer those that wait, end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, is_warm: threading.Event) -> None:
        try:
            self.pace.measure(self._predict_blank)
        except Exception as error:  # noqa: BLE001  handed to whoever called start
            self._failure = error
            return
        finally:
            is_warm.set()
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch, goal = self._take(time.perf_counter())
            if batch:
                self._busy_since = time.perf_counter()
                self._answer(batch, goal)
                self._busy_since = None

    def _predict_blank(self, batch_size: int, budget: int | None) -> None:
        self._policy.predict_action_chunk(
            blank_observation(self._policy.spec, batch_size),
            budget=budget,
            generator=None,
            deadline_ms=3.6e6 if self.pace.budgets else None,
            sampling=self._sampling,
        )

    def _take(self, now: float) -> tuple[list[_Waiting], int | None]:
        """The most urgent request, and others that go with it; what budget they can have."""
        queue = sorted((w for w in self._waiting if not w.future.done()), key=lambda w: w.due)
        self._waiting = queue
        if not queue:
            return [], None
        first = queue[0].request
        alike = [w for w in queue if _is_alike(w.request, first)]
        batch = alike[: self.pace.max_batch]
        goal: int | None = None
        if first.deadline is not None and self.pace.budgets:
            batch = batch[: self._size_in_time(batch, now)]
            goal = self._goal(batch[0], len(batch), queue, now)
            batch = [w for w in batch if self._goal(w, len(batch), queue, now) == goal]
        taken = set(map(id, batch))
        self._waiting = [w for w in queue if id(w) not in taken]
        return batch, goal

    def _size_in_time(self, batch: Sequence[_Waiting], now: float) -> int:
        """How many can be answered together so that the first prefix of the most urgent fits; all
        where it is late anyway."""
        pace, left_ms = self.pace, self._left_ms(batch[0].due, now)
        sizes = range(len(batch), 0, -1)
        fitting = (n for n in sizes if pace.expected_ms(n, pace.budgets[0]) <= left_ms)
        return next(fitting, len(batch))

    def _goal(self, one: _Waiting, batch_size: int, queue: Sequence[_Waiting], now: float) -> int:
        """The largest budget in time for this request that leaves the first one to all others."""
        budget, pace = one.request.budget, self.pace
        allowed_ms = self._left_ms(one.due, now)
        first_ms = pace.expected_ms(pace.max_batch, pace.budgets[0])
        urgent = [w for w in queue if w.request.deadline is not None]
        for number, later in enumerate(urgent[pace.max_batch :: pace.max_batch], start=1):
            spare_ms = self._left_ms(later.due, now) - number * first_ms
            if spare_ms > 0:  # what is late anyway holds nobody up
                allowed_ms = min(allowed_ms, spare_ms)
        return pace.goal(batch_size, budget if isinstance(budget, int) else None, allowed_ms)

    def _left_ms(self, due: float, now: float) -> float:
        """Until the prediction must be done."""
        return 1000 * (1 - RESERVE) * (due - now) - self.pace.reply_ms

    def _answer(self, batch: list[_Waiting], goal: int | None) -> None:
        """Predict and hand out; where a batch fails, each request is tried alone."""
        try:
            outcomes: list[Answer | Exception] = list(self._predict(batch, goal))
        except Exception as error:  # noqa: BLE001  it is the answer to the request
            if len(batch) > 1:
                for one in batch:
                    self._answer([one], goal)
                return
            outcomes = [error]
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            batch[0].future.get_loop().call_soon_threadsafe(_hand_out, batch, outcomes)

    def _predict(self, batch: list[_Waiting], goal: int | None) -> list[Answer]:
        requests = [waiting.request for waiting in batch]
        budget = requests[0].budget
        deadlines = [r.deadline for r in requests if r.deadline is not None]
        generators = [r.generator for r in requests]
        began = time.perf_counter()
        deadline_ms = None
        if deadlines and self.pace.budgets:
            deadline_ms = max(self._left_ms(min(deadlines), began), LEAST_MS)
            budget = budget if budget == "auto" else goal
        found = self._policy.predict_action_chunk(
            _stack(requests),
            budget=budget,
            generator=None if None in generators else generators,
            deadline_ms=deadline_ms,
            sampling=self._sampling,
        )
        done = time.perf_counter()
        infer_ms = 1000 * (done - began)
        chunk_BTA = np.asarray(found.chunk)
        if not np.isfinite(chunk_BTA).all():
            raise OatkitError("the policy gave actions that are not finite")
        used = [int(k) for k in found.budget]
        if self.pace.budgets and budget != "auto":  # which decodes after every stage
            self.pace.note(len(batch), max(used), infer_ms)
        return [
            Answer(
                actions=chunk_BTA[row],
                tokens=[int(i) for i in found.ids[row][: used[row]]],
                entropy_bits=[float(e) for e in found.entropy_bits[row][: used[row]]],
                calls=int(found.calls[row]),
                batch_size=len(batch),
                queue_ms=1000 * (began - request.received),
                infer_ms=infer_ms,
                done=done,
            )
            for row, request in enumerate(requests)
        ]


def _is_alike(one: Request, other: Request) -> bool:
    """Whether both may be in one batch, deadlines aside."""
    return (
        one.budget == other.budget
        and (one.deadline is None) == (other.deadline is None)
        and one.signature == other.signature
    )


def _stack(requests: Sequence[Request]) -> dict[str, Any]:
    rows = [request.observation for request in requests]
    return {
        key: [row[key] for row in rows] if key == TASK else np.stack([row[key] for row in rows])
        for key in rows[0]
    }


def _hand_out(batch: Sequence[_Waiting], outcomes: Sequence[Answer | Exception]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=True):
        if waiting.future.done():  # its client is gone
            continue
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
