"""Numbers of a running server in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Count:
    """A number that grows, for each value of one label."""

    kind = "counter"

    def __init__(self, label: str) -> None:
        self._label = label
        self._counts: Counter[str] = Counter()

    def add(self, value: str) -> None:
        self._counts[value] += 1

    def lines(self, name: str) -> Iterator[str]:
        for value, count in sorted(self._counts.items()):
            yield f'{name}{{{self._label}="{value}"}} {count}'


class Gauge:
    """A number that is looked up."""

    kind = "gauge"

    def __init__(self, look_up: Callable[[], float]) -> None:
        self._look_up = look_up

    def lines(self, name: str) -> Iterator[str]:
        yield f"{name} {self._look_up():g}"


class Histogram:
    """How often a number was at most each bound."""

    kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.9g}"
        yield f"{name}_count {total}"


class Metrics:
    """All numbers of a server; only its event loop changes them.

    Args:
        budgets: Bounds of the histogram of tokens.
        max_batch: The largest batch.
        queue_depth: Looks up how many requests wait.
        connections: Looks up how many clients are connected.
    """

    def __init__(
        self,
        *,
        budgets: Sequence[int],
        max_batch: int,
        queue_depth: Callable[[], float],
        connections: Callable[[], float],
    ) -> None:
        self.requests = Count("outcome")
        self.errors = Count("kind")
        self.request_s = Histogram(SECONDS)
        self.infer_s = Histogram(SECONDS)
        self.budget_used = Histogram(budgets)
        self.batch_size = Histogram([2**k for k in range(max_batch.bit_length())])
        self.deadlines = Count("outcome")
        self._all: dict[str, tuple[str, Count | Gauge | Histogram]] = {
            "requests_total": ("Requests by outcome: ok, error, busy or gone.", self.requests),
            "errors_total": ("Requests that failed, by kind.", self.errors),
            "request_seconds": ("From a message to its reply, sent.", self.request_s),
            "inference_seconds": ("One prediction, of a whole batch.", self.infer_s),
            "budget_used": ("Tokens that a chunk was decoded from.", self.budget_used),
            "batch_size": ("Requests answered together.", self.batch_size),
            "deadlines_total": ("Deadlines that were met or missed.", self.deadlines),
            "queue_depth": ("Requests that wait.", Gauge(queue_depth)),
            "connections": ("Clients that are connected.", Gauge(connections)),
        }

    def render(self) -> str:
        lines = []
        for short, (explanation, metric) in self._all.items():
            name = f"oatkit_{short}"
            lines += [f"# HELP {name} {explanation}", f"# TYPE {name} {metric.kind}"]
            lines += metric.lines(name)
        return "\n".join(lines) + "\n"
