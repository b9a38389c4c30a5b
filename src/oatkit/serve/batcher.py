"""Requests of all connections, answered in batches by one thread of their own.

    loop    submit --> waiting requests, most urgent first
    thread                take a batch --> predict --> answers --> loop

While a batch is computed further requests gather, so batches grow with the load and nobody waits
for one to fill. A request without a deadline counts as due `PATIENCE_S` after it came.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from oatkit_client.protocol import BUSY, StopReason

from oatkit.errors import OatkitError
from oatkit.policies import Policy
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.observation.observation_spec import blank_observation
from oatkit.policies.observation.observations import Observations
from oatkit.serve.latency_table import LatencyTable, deadline_budgets
from oatkit.serve.request import Request
from oatkit.types import Budget, Prediction

PATIENCE_S = 1.0
"""Time after which a request without a deadline is due."""
MIN_DEADLINE_MS = 0.01
"""Deadline given to the policy when none of the time is left: it must be positive."""
UNLIMITED_MS = 3.6e6
"""Deadline of timed predictions: never reached, but planned with as in a real request."""
RESERVE = 0.03
"""Share of the remaining time that is not planned for: a prediction may take longer than expected,
and the reply arrives later than it leaves."""


class BusyError(OatkitError):
    """The queue is full, or the server is shutting down."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The prediction for one request.

    Attributes:
        actions: (horizon, action_dim) raw units.
        tokens: Ids that they were decoded from.
        entropy_bits: Entropy in bits of the network's distribution for each token, before
            temperature, top-k and top-p.
        calls: Number of stages that the network was run for.
        attempts: How often the tokens were generated until they decoded.
        budget_used: Number of tokens, or of Euler steps where a flow expert acts.
        stopped: Why generation stopped; None where the policy does not say.
        execute_steps: Number of steps that are worth executing, as the policy finds; None where it
            was not calibrated.
        batch_size: Number of requests that were answered together.
        queue_ms: Time from the arrival of the message until the prediction began.
        infer_ms: Duration of the prediction.
        done: When it ended, on the clock of `time.perf_counter`.
        draws: (horizon, action_dim) chunk of each draw; None where there is one.
    """

    actions: Any
    tokens: list[int]
    entropy_bits: list[float]
    calls: int
    attempts: int
    budget_used: int
    stopped: StopReason | None
    execute_steps: int | None
    batch_size: int
    queue_ms: float
    infer_ms: float
    done: float
    draws: list[Any] | None = None


@dataclass(eq=False)
class _Waiting:
    request: Request
    generator: torch.Generator | None
    future: asyncio.Future[Answer]

    @property
    def due(self) -> float:
        deadline = self.request.deadline
        return self.request.received + PATIENCE_S if deadline is None else deadline


class Batcher:
    """Predicts in a thread, off the event loop.

    Args:
        policy: Policy that answers; only this thread calls it.
        max_batch: Maximum number of chunks that are generated together: of requests, where each is
            for one draw. A request for more draws is answered alone.
        max_queue: Maximum number of requests that wait.
        robots: Policies of all robots by their names, around one network, where requests name
            theirs; `policy` is one of them.

    Attributes:
        latencies: How long predictions take here.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        max_batch: int,
        max_queue: int,
        robots: Mapping[str | None, Policy] | None = None,
    ) -> None:
        self._policy = policy
        self._robots = robots or {}
        self._max_queue = max_queue
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._busy_since: float | None = None
        self.latencies = LatencyTable(max_batch, deadline_budgets(policy))

    @property
    def num_waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def is_healthy(self, timeout_s: float) -> bool:
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

    def submit(
        self, request: Request, generator: torch.Generator | None = None
    ) -> asyncio.Future[Answer]:
        """Put a request into the queue; cancel the future to take it out again.

        Args:
            request: What is asked for.
            generator: Random numbers to sample with; torch's own by default.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_closed:
                raise BusyError(f"{BUSY}: the server is shutting down")
            if len(self._waiting) >= self._max_queue:
                raise BusyError(
                    f"{BUSY}: {len(self._waiting)} requests wait already; ask again later"
                )
            self._waiting.append(_Waiting(request, generator, future))
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
            self._warm_up()
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
                batch, budget = self._take(time.perf_counter())
            if batch:
                self._busy_since = time.perf_counter()
                self._answer(batch, budget)
                self._busy_since = None

    def _warm_up(self) -> None:
        """Measure how long predictions take, for every robot, so that no request has to wait for
        that; where actions are committed they take longer.

        A policy measures the sizes that it is asked for first and takes those between them from
        there, so the others come last.
        """
        latencies = self.latencies
        latencies.measure(partial(self._predict_blank, self._policy))
        if not latencies.budgets:  # deadlines are ignored
            return
        for policy in self._robots.values() or (self._policy,):
            for batch_size in latencies.timed_sizes:
                found = self._predict_blank(policy, batch_size)
                if takes_committed(policy):
                    self._predict_blank(policy, batch_size, committed=found.chunk[:, :1])
            for batch_size in latencies.other_sizes:
                self._predict_blank(policy, batch_size)

    def _predict_blank(
        self, policy: Policy, batch_size: int, budget: int | None = None, committed: Any = None
    ) -> Prediction:
        return policy.predict_action_chunk(
            blank_observation(policy.spec, batch_size),
            budget=budget,
            deadline_ms=UNLIMITED_MS if self.latencies.budgets else None,
            committed=committed,
        )

    def _take(self, now: float) -> tuple[list[_Waiting], Budget]:
        """Take the most urgent request and others that go with it out of the queue; also gives the
        budget that they have time for."""
        queue = sorted((w for w in self._waiting if not w.future.done()), key=lambda w: w.due)
        self._waiting = queue
        if not queue:
            return [], None
        first = queue[0].request
        together = [w for w in queue if w.request.batch_key == first.batch_key]
        most = max(1, self.latencies.max_batch // first.draws)
        batch, budget = together[:most], first.budget
        if first.deadline is not None and self.latencies.budgets:
            batch = batch[: self._size_in_time(batch, now)]
            rows = len(batch) * first.draws
            planned = self._plan_budget(batch[0], rows, queue, now)
            batch = [w for w in batch if self._plan_budget(w, rows, queue, now) == planned]
            budget = budget if budget == "auto" else planned
        taken = set(map(id, batch))
        self._waiting = [w for w in queue if id(w) not in taken]
        return batch, budget

    def _size_in_time(self, batch: Sequence[_Waiting], now: float) -> int:
        """How many can be answered together so that the most urgent request still gets its smallest
        trained budget before its deadline; all of them if it is already too late."""
        latencies, left_ms = self.latencies, self._left_ms(batch[0].due, now)
        sizes = range(len(batch), 0, -1)
        draws, first = batch[0].request.draws, latencies.budgets[0]
        in_time = (n for n in sizes if latencies.expected_ms(n * draws, first) <= left_ms)
        return next(in_time, len(batch))

    def _plan_budget(
        self, one: _Waiting, num_rows: int, queue: Sequence[_Waiting], now: float
    ) -> int:
        """The largest budget in time for this request, in a batch of so many generated rows, that
        leaves all others time for their smallest trained budget."""
        budget, latencies = one.request.budget, self.latencies
        allowed_ms = self._left_ms(one.due, now)
        first_ms = latencies.expected_ms(latencies.max_batch, latencies.budgets[0])
        with_deadline = [w for w in queue if w.request.deadline is not None]
        ends = list(accumulate(w.request.draws for w in with_deadline))
        now_rows = max(latencies.max_batch, ends[0])
        for other, end in zip(with_deadline, ends, strict=True):
            num_batches = math.ceil((end - now_rows) / latencies.max_batch)  # after this one
            spare_ms = self._left_ms(other.due, now) - num_batches * first_ms
            # a request that is already too late does not limit the others
            if num_batches > 0 and spare_ms > 0:
                allowed_ms = min(allowed_ms, spare_ms)
        most = budget if isinstance(budget, int) else None
        return latencies.largest_budget(num_rows, most, allowed_ms)

    def _left_ms(self, due: float, now: float) -> float:
        """Time until the prediction must be done."""
        return 1000 * (1 - RESERVE) * (due - now) - self.latencies.reply_ms

    def _answer(self, batch: list[_Waiting], budget: Budget) -> None:
        """Predict and hand out; where a batch fails, each request is tried alone."""
        try:
            outcomes: list[Answer | Exception] = list(self._predict(batch, budget))
        except Exception as error:  # noqa: BLE001  it is the answer to the request
            if len(batch) > 1:
                for one in batch:
                    self._answer([one], budget)
                return
            outcomes = [error]
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            batch[0].future.get_loop().call_soon_threadsafe(_hand_out, batch, outcomes)

    def _predict(self, batch: list[_Waiting], budget: Budget) -> list[Answer]:
        requests = [waiting.request for waiting in batch]
        generators = [w.generator for w in batch if w.generator is not None]
        deadlines = [r.deadline for r in requests if r.deadline is not None]
        began = time.perf_counter()
        deadline_ms = None
        if deadlines and self.latencies.budgets:
            deadline_ms = max(self._left_ms(min(deadlines), began), MIN_DEADLINE_MS)
        policy = self._robots.get(requests[0].embodiment, self._policy)
        found = policy.predict_action_chunk(
            Observations.cat([request.observations for request in requests]),
            budget=budget,
            sampling=requests[0].sampling,
            generator=generators if len(generators) == len(batch) else None,
            deadline_ms=deadline_ms,
            draws=requests[0].draws,
            committed=_committed(requests),
        )
        done = time.perf_counter()
        infer_ms = 1000 * (done - began)
        chunk_BTA = np.asarray(found.chunk)
        if not np.isfinite(chunk_BTA if found.draws is None else found.draws).all():
            raise OatkitError("the policy gave actions that are not finite")
        used = [int(k) for k in found.budget]
        spent = used if self._policy.head == "tokens" else [int(k) for k in found.calls]
        steps = [None] * len(batch) if found.execute_steps is None else found.execute_steps.tolist()
        stopped = [None] * len(batch) if found.stopped is None else found.stopped
        if budget != requests[0].budget:  # there was no time for more than the planned budget
            stopped = ["deadline" if reason == "budget" else reason for reason in stopped]
        if self.latencies.budgets and requests[0].is_plain:
            self.latencies.add_prediction(len(batch), max(spent), infer_ms)
        return [
            Answer(
                actions=chunk_BTA[row],
                tokens=[int(i) for i in found.ids[row][: used[row]]],
                entropy_bits=[float(e) for e in found.entropy_bits[row][: used[row]]],
                calls=int(found.calls[row]),
                attempts=int(found.attempts[row]),
                budget_used=spent[row],
                stopped=stopped[row],
                execute_steps=steps[row],
                batch_size=len(batch),
                queue_ms=1000 * (began - request.received),
                infer_ms=infer_ms,
                done=done,
                draws=None if found.draws is None else list(found.draws[row]),
            )
            for row, request in enumerate(requests)
        ]


def _committed(requests: Sequence[Request]) -> Any:
    """Committed actions of requests that are answered together, (B, steps, action_dim)."""
    given = [request.committed for request in requests if request.committed is not None]
    return np.stack(given) if given else None


def _hand_out(batch: Sequence[_Waiting], outcomes: Sequence[Answer | Exception]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=True):
        if waiting.future.done():  # its client is gone
            continue
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
