"""How long predictions take here: what a deadline is compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

REPEATS = 3
SLOWEST = 20.0
FORGETTING = 0.02
"""Share of what is new where the server became faster; what is slower counts at once."""


class Pace:
    """Times of whole predictions by batch size and budget, corrected by what is seen later.

    Args:
        max_batch: The largest batch.
        budgets: Trained ones, in growing order; empty where generation cannot stop early.
    """

    def __init__(self, max_batch: int, budgets: tuple[int, ...]) -> None:
        self.max_batch = max_batch
        self.budgets = budgets
        self.table_ms: dict[tuple[int, int | None], float] = {}
        self.slowness = 1.0
        self.reply_ms = 1.0

    def measure(self, predict: Callable[[int, int | None], object]) -> None:
        """Fill the table with `predict(batch_size, budget)`, which is thereby warm."""
        for batch_size in range(1, self.max_batch + 1):
            for budget in self.budgets or (None,):
                times = []
                for _ in range(REPEATS + 1):
                    began = time.perf_counter()
                    predict(batch_size, budget)
                    times.append(1000 * (time.perf_counter() - began))
                self.table_ms[batch_size, budget] = median(times[1:])

    def expected_ms(self, batch_size: int, budget: int | None) -> float:
        """A budget between two trained ones counts as the second."""
        return self.slowness * self._measured_ms(batch_size, budget)

    def goal(self, batch_size: int, most: int | None, allowed_ms: float) -> int:
        """The largest trained budget up to `most` that fits, else the smallest."""
        top = self.budgets[-1] if most is None else most
        fitting = [b for b in self.budgets if b < top] + [top]
        return max(
            (b for b in fitting if self.expected_ms(batch_size, b) <= allowed_ms),
            default=fitting[0],
        )

    def note(self, batch_size: int, budget: int | None, took_ms: float) -> None:
        """What a prediction took."""
        ratio = took_ms / self._measured_ms(batch_size, budget)
        self.slowness = min(_rise(self.slowness, ratio), SLOWEST)

    def note_reply(self, took_ms: float) -> None:
        """What it took to send a reply after its prediction."""
        self.reply_ms = _rise(self.reply_ms, took_ms)

    def _measured_ms(self, batch_size: int, budget: int | None) -> float:
        longest = self.budgets[-1] if self.budgets else None
        at_least = (b for b in self.budgets if budget is not None and b >= budget)
        return self.table_ms[batch_size, next(at_least, longest)]


def _rise(old: float, new: float) -> float:
    share = 0.5 if new > old else FORGETTING
    return old + share * (new - old)
