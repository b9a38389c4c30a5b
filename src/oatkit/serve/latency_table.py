"""How long predictions take on this machine: what a deadline is compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from oatkit.policies import Policy
from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.tokenizers.codec import doubling

REPEATS = 3
MAX_SLOWNESS = 20.0
FORGETTING = 0.02
"""Weight of a new measurement that is faster than expected; a slower one counts at once."""


class LatencyTable:
    """Durations of whole predictions by batch size and budget, corrected by what is seen later.

    Args:
        max_batch: Maximum number of rows in a batch that are measured; more take as many times as
            long.
        budgets: Trained budgets, or numbers of Euler steps, in growing order; empty where
            generation cannot stop early.

    Attributes:
        timed_sizes: Batch sizes that are measured: 1, 2, 4, ... and the largest.
        other_sizes: Batch sizes between them.
        table_ms: Duration by batch size and budget; those of the other sizes are on the line
            between measured ones.
        slowness: Present durations divided by the measured ones.
        reply_ms: Time from the end of a prediction until its reply has left.
    """

    def __init__(self, max_batch: int, budgets: tuple[int, ...]) -> None:
        self.max_batch = max_batch
        self.budgets = budgets
        self.timed_sizes = doubling(max_batch)
        self.other_sizes = tuple(sorted({*range(1, max_batch + 1)} - {*self.timed_sizes}))
        self.table_ms: dict[tuple[int, int | None], float] = {}
        self.slowness = 1.0
        self.reply_ms = 1.0

    def measure(self, predict: Callable[[int, int | None], object]) -> None:
        """Fill the table with the durations of `predict(batch_size, budget)`, which warms it up:
        every size runs once at least, because that is when a GPU captures it.

        A smaller budget is a part of the work of a larger one: where it seems to take longer, the
        machine did something else meanwhile, and the time of the larger one counts.
        """
        measured_ms = np.full(len(self.timed_sizes), np.inf)
        for budget in reversed(self.budgets or (None,)):
            found_ms = [_median_ms(partial(predict, n, budget)) for n in self.timed_sizes]
            measured_ms = np.minimum(measured_ms, found_ms)
            for batch_size in self.other_sizes:
                predict(batch_size, budget)
            for batch_size in range(1, self.max_batch + 1):
                between_ms = np.interp(batch_size, self.timed_sizes, measured_ms)
                self.table_ms[batch_size, budget] = float(between_ms)

    def expected_ms(self, batch_size: int, budget: int | None) -> float:
        """Expected duration of a prediction; a budget between two trained ones takes as long as
        the larger one."""
        return self.slowness * self._measured_ms(batch_size, budget)

    def largest_budget(self, batch_size: int, most: int | None, allowed_ms: float) -> int:
        """The largest trained budget up to `most` that fits into a time, else the smallest."""
        top = self.budgets[-1] if most is None else most
        candidates = [b for b in self.budgets if b < top] + [top]
        return max(
            (b for b in candidates if self.expected_ms(batch_size, b) <= allowed_ms),
            default=candidates[0],
        )

    def add_prediction(self, batch_size: int, budget: int | None, took_ms: float) -> None:
        """Learn from the duration of a prediction."""
        ratio = took_ms / self._measured_ms(batch_size, budget)
        self.slowness = min(_average(self.slowness, ratio), MAX_SLOWNESS)

    def add_reply(self, took_ms: float) -> None:
        """Learn from the time that a reply took to leave after its prediction."""
        self.reply_ms = _average(self.reply_ms, took_ms)

    def _measured_ms(self, batch_size: int, budget: int | None) -> float:
        longest = self.budgets[-1] if self.budgets else None
        at_least = (b for b in self.budgets if budget is not None and b >= budget)
        measured_ms = self.table_ms[min(batch_size, self.max_batch), next(at_least, longest)]
        return measured_ms * max(1.0, batch_size / self.max_batch)


def deadline_budgets(policy: Policy) -> tuple[int, ...]:
    """Budgets that a deadline may choose from; none where generation cannot stop early."""
    if policy.head == "tokens" and not can_stop_early(policy.tokenizer):
        return ()
    return policy.budgets


def _median_ms(run: Callable[[], object]) -> float:
    """The usual duration of a call, after one that warms up."""
    times_ms = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        run()
        times_ms.append(1000 * (time.perf_counter() - began))
    return median(times_ms[1:])


def _average(old: float, new: float) -> float:
    """A moving average that rises fast and falls slowly."""
    share = 0.5 if new > old else FORGETTING
    return old + share * (new - old)
