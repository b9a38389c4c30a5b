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
        """Count one with this value of the label."""
        self._counts[value] += 1

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the metric in the text format."""
        for value, count in sorted(self._counts.items()):
            text = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            yield f'{name}{{{self._label}="{text}"}} {count}'


class Gauge:
    """A number that is asked for when it is shown."""

    kind = "gauge"

    def __init__(self, value: Callable[[], float]) -> None:
        self._value = value

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the metric in the text format."""
        yield f"{name} {self._value():g}"


class Histogram:
    """Counts how often a number was at most each bound."""

    kind = "histogram"

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a number."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """The lines of the metric in the text format."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.9g}"
        yield f"{name}_count {total}"


class Metrics:
    """All numbers of a server; only its event loop changes them.

    Args:
        budgets: Bounds of the histogram of tokens or Euler steps.
        max_batch: Maximum number of requests in a batch.
        queue_depth: Function that gives how many requests wait.
        connections: Function that gives how many clients are connected.
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
        self.out_of_range = Count("dimension")
        self._all: dict[str, tuple[str, Count | Gauge | Histogram]] = {
            "requests_total": ("Requests by outcome: ok, error, busy or gone.", self.requests),
            "errors_total": ("Requests that failed, by kind.", self.errors),
            "request_seconds": ("From a message to its reply, sent.", self.request_s),
            "inference_seconds": ("One prediction, of a whole batch.", self.infer_s),
            "budget_used": (
                "Tokens, or Euler steps, that made a chunk.",
                self.budget_used,
            ),
            "batch_size": ("Requests answered together.", self.batch_size),
            "deadlines_total": ("Deadlines that were met or missed.", self.deadlines),
            "out_of_range_total": (
                "Requests whose state is far outside of the training data, by the worst dimension.",
                self.out_of_range,
            ),
            "queue_depth": ("Requests that wait.", Gauge(queue_depth)),
            "connections": ("Clients that are connected.", Gauge(connections)),
        }

    def add_reply(
        self,
        *,
        request_s: float,
        infer_s: float,
        budget_used: int,
        batch_size: int,
        is_in_time: bool | None,
    ) -> None:
        """Count a reply that has left.

        Args:
            request_s: Time from the message to the reply.
            infer_s: Duration of the prediction.
            budget_used: Number of tokens.
            batch_size: Number of requests that were answered together.
            is_in_time: Whether the deadline was met; None where there was none.
        """
        self.requests.add("ok")
        self.request_s.add(request_s)
        self.infer_s.add(infer_s)
        self.budget_used.add(budget_used)
        self.batch_size.add(batch_size)
        if is_in_time is not None:
            self.deadlines.add("met" if is_in_time else "missed")

    def render(self) -> str:
        """All numbers as text."""
        lines = []
        for short, (explanation, metric) in self._all.items():
            name = f"oatkit_{short}"
            lines += [f"# HELP {name} {explanation}", f"# TYPE {name} {metric.kind}"]
            lines += metric.lines(name)
        return "\n".join(lines) + "\n"
