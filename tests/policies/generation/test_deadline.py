"""Which budget a deadline leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies.generation import token_generation
from oatkit.policies.generation.deadline import Deadline, Latency, ms_between
from oatkit.types import Schedule
from tests.nn.pretended_devices import AsynchronousClock
from tests.policies import tiny

TOKENWISE = Schedule.tokenwise(6)
LATENCY = Latency((1.0,) * 6, 0.5)


@pytest.mark.parametrize(
    ("at_ms", "num_calls", "budget"),
    [
        (9.0, 1, None),  # everything is in time
        (1.4, 1, 1),  # nothing more is
        (3.4, 4, 4),  # two more stages are, decoding is not
        (3.4, 3, 2),  # 3 lies between two trained budgets, and 4 is not in time
        (0.1, 6, None),  # it is at its end anyway
    ],
)
def test_the_budget_to_stop_at(
    at_ms: float, num_calls: int, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent_ms = {1: 0.0, 3: 2.0, 4: 1.0, 6: 0.0}[num_calls]
    monkeypatch.setattr("time.perf_counter", lambda: spent_ms / 1000)
    deadline = Deadline(at_ms / 1000, LATENCY, torch.device("cpu"))
    assert deadline.final_budget(TOKENWISE, num_calls, 6, (1, 2, 4, 6)) == budget


def test_times_between_measured_ones_are_on_the_line_between_them() -> None:
    measured = {4: (2.0, 40.0), 1: (1.0, 10.0), 8: (2.0, 120.0)}
    assert [ms_between(measured, rows) for rows in (1, 4, 8)] == [[1, 10], [2, 40], [2, 120]]
    assert ms_between(measured, 2) == pytest.approx([4 / 3, 20])
    assert ms_between(measured, 7) == [2, 100]
    assert ms_between(measured, 9) is ms_between({2: (1.0,)}, 1) is ms_between({}, 1) is None


def test_a_deadline_takes_the_last_trained_budget_that_fits(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks 1 ms a stage, and a table that says so."""
    policy = tiny.make_policy("oat", dataset)  # token-wise, trained at 1, 2, 4 and 6
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    monkeypatch.setattr(policy.token_predictor, "latency", lambda *_, **__: LATENCY)
    now = [0.0]
    real = token_generation.generate_stages

    def ticking(*args: Any, **kwargs: Any) -> Any:
        for stage in real(*args, **kwargs):
            now[0] += 0.001
            yield stage

    monkeypatch.setattr(token_generation, "generate_stages", ticking)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for deadline_ms, budget in (
        (0.1, 1),
        (1.6, 1),
        (2.6, 2),
        (3.6, 2),
        (4.6, 4),
        (6.6, 6),
        (99, 6),
    ):
        found = policy.predict_action_chunk(observation, deadline_ms=deadline_ms)
        assert (found.budget[0], found.calls[0]) == (budget, budget), deadline_ms
    found = policy.predict_action_chunk(observation, deadline_ms=99, budget=3)
    assert found.budget[0] == 3


def test_a_deadline_waits_for_the_device_before_it_reads_the_clock(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU a stage is launched in no time: all would run, and the chunk come too late."""
    policy = tiny.make_policy("oat", dataset)
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    monkeypatch.setattr(policy.token_predictor, "latency", lambda *_, **__: LATENCY)
    clock = AsynchronousClock(monkeypatch)
    stages = clock.timed(token_generation.generate_stages, 0.001)
    monkeypatch.setattr(token_generation, "generate_stages", stages)
    found = policy.predict_action_chunk(observation, deadline_ms=2.6)
    assert (found.budget, round(found.elapsed_ms, 6)) == (2, 2)


def test_without_a_deadline_nobody_waits_between_stages(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting after every stage would keep a GPU idle while the next stage is launched."""
    policy = tiny.make_policy("oat", dataset)
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    waits: list[torch.device] = []
    monkeypatch.setattr("oatkit.nn.device.synchronize", waits.append)
    policy.predict_action_chunk(observation)
    assert len(waits) == 1, "for the time that the prediction took"
