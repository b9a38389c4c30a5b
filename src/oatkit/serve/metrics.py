"""Numbers of a running server, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """All numbers of a server.

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
        self._registry = CollectorRegistry()  # of this server: a process may have several
        self._requests = self._counter(
            "requests", "Requests by outcome: ok, error, busy or gone.", "outcome"
        )
        self._errors = self._counter("errors", "Requests that failed, by kind.", "kind")
        self._request_s = self._histogram(
            "request_seconds", "From a message to its reply, sent.", SECONDS
        )
        self._infer_s = self._histogram(
            "inference_seconds", "One prediction, of a whole batch.", SECONDS
        )
        self._budget_used = self._histogram(
            "budget_used", "Tokens, or Euler steps, that made a chunk.", budgets
        )
        self._batch_size = self._histogram(
            "batch_size",
            "Requests answered together.",
            [2**k for k in range(max_batch.bit_length())],
        )
        deadlines = self._counter("deadlines", "Deadlines that were met or missed.", "outcome")
        self._out_of_range = self._counter(
            "out_of_range",
            "Requests whose state is far outside of the training data, by the worst dimension.",
            "dimension",
        )
        # looked up once, and there with 0 before anything happens
        self._ok = self._requests.labels("ok")
        self._deadlines_by = {
            is_met: deadlines.labels("met" if is_met else "missed") for is_met in (True, False)
        }
        self._gauge("queue_depth", "Requests that wait.", queue_depth)
        self._gauge("connections", "Clients that are connected.", connections)

    def add_request(self, outcome: str) -> None:
        """Count a request that has no reply: error, busy or gone."""
        self._requests.labels(outcome).inc()

    def add_error(self, kind: str) -> None:
        """Count an error."""
        self._errors.labels(kind).inc()

    def add_out_of_range(self, dimension: str) -> None:
        """Count a state far outside of the training data, by its worst dimension."""
        self._out_of_range.labels(dimension).inc()

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
        self._ok.inc()
        self._request_s.observe(request_s)
        self._infer_s.observe(infer_s)
        self._budget_used.observe(budget_used)
        self._batch_size.observe(batch_size)
        if is_in_time is not None:
            self._deadlines_by[is_in_time].inc()

    def render(self) -> str:
        """All numbers as text."""
        return generate_latest(self._registry).decode()

    def _counter(self, name: str, explanation: str, label: str) -> Counter:
        return Counter(f"oatkit_{name}", explanation, [label], registry=self._registry)

    def _histogram(self, name: str, explanation: str, bounds: Sequence[float]) -> Histogram:
        return Histogram(f"oatkit_{name}", explanation, buckets=bounds, registry=self._registry)

    def _gauge(self, name: str, explanation: str, value: Callable[[], float]) -> None:
        Gauge(f"oatkit_{name}", explanation, registry=self._registry).set_function(value)
