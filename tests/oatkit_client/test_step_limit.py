"""What a step does that has no chunk within its limit."""

from __future__ import annotations

import time
from typing import Any

import pytest
from oatkit_client import (
    ChunkQueue,
    ConnectionFailed,
    RealTimeChunks,
    ServerError,
    StepLate,
)
from oatkit_client.step_limit import StepLimit

from tests.oatkit_client.counting import Counting

LIMIT_MS = 30.0


def acted(chunks: Any, policy: Counting, num_late: int) -> list[Any]:
    """Four steps with a server, some without, some more with it; a late one is "late"."""
    actions: list[Any] = []
    for step in range(6 + num_late):
        if step == 4:
            policy.gate.clear()
        if step == 4 + num_late:
            policy.gate.set()
            time.sleep(0.05)
        try:
            actions.append(int(chunks.step({"x": 100 * step})[0]))
        except StepLate:
            actions.append("late")
    return actions


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        ("raise", [0, 1, 2, 3, "late", "late", "late", 400, 401]),
        ("hold", [0, 1, 2, 3, 3, 3, 3, 400, 401]),
        ("continue", [0, 1, 2, 3, 4, 5, 6, 403, 800]),
        ("finish", [0, 1, 2, 3, 4, 5, 6, 403, 800]),
    ],
)
def test_a_queue_does_what_the_user_chose(meanwhile: Any, expected: list[Any]) -> None:
    """Where the robot stands still the late chunk begins where it stands; where it moved, the steps
    that passed are left out."""
    policy = Counting(horizon=8)
    with ChunkQueue(
        policy, execute=4, blend=None, limit_ms=LIMIT_MS, meanwhile=meanwhile
    ) as chunks:
        assert acted(chunks, policy, num_late=3) == expected
        assert chunks.num_held == (0 if meanwhile == "raise" else 3)
        assert not chunks.is_stale


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [("raise", [0, 1, 2, 3, "late"]), ("finish", [0, 1, 2, 3, "late"]), ("hold", [0, 1, 2, 3, 3])],
)
def test_in_real_time_a_chunk_is_always_finished_first(meanwhile: Any, expected: Any) -> None:
    policy = Counting(horizon=4)
    with RealTimeChunks(policy, execute=4, limit_ms=LIMIT_MS, meanwhile=meanwhile) as chunks:
        assert acted(chunks, policy, num_late=1)[:5] == expected


def test_a_queue_that_finishes_its_chunk_ends_with_it() -> None:
    policy = Counting(horizon=6)
    with ChunkQueue(policy, execute=4, limit_ms=LIMIT_MS, meanwhile="finish") as chunks:
        assert acted(chunks, policy, num_late=3)[:7] == [0, 1, 2, 3, 4, 5, "late"]


@pytest.mark.parametrize("chunks_class", [ChunkQueue, RealTimeChunks])
def test_a_step_with_a_hanging_policy_takes_its_limit(chunks_class: type[ChunkQueue]) -> None:
    policy = Counting()
    policy.gate.clear()
    with chunks_class(policy, limit_ms=LIMIT_MS) as chunks:
        began = time.monotonic()
        with pytest.raises(StepLate, match="there is no action after 30 ms"):
            chunks.step({"x": 0})
        assert 0.5 * LIMIT_MS <= 1000 * (time.monotonic() - began) < 500
        policy.gate.set()
        chunks.prepare({"x": 7})
        assert chunks.step({"x": 9})[0] == 0, "the request went on"


@pytest.mark.parametrize("chunks_class", [ChunkQueue, RealTimeChunks])
def test_a_lost_server_is_bridged_and_a_mistake_is_not(chunks_class: type[ChunkQueue]) -> None:
    policy = Counting(horizon=2)
    with chunks_class(policy, execute=2, limit_ms=LIMIT_MS, meanwhile="hold") as chunks:
        assert [int(chunks.step({"x": 0})[0]) for _ in range(2)] == [0, 1]
        policy.failure = ConnectionFailed("gone")
        assert [int(chunks.step({"x": 0})[0]) for _ in range(2)] == [1, 1]
        assert chunks.num_failures >= 2
        assert chunks.is_stale
        policy.failure = ServerError("the observation has no state")
        with pytest.raises(ServerError, match="has no state"):
            [chunks.step({"x": 0}) for _ in range(3)]


@pytest.mark.parametrize("chunks_class", [ChunkQueue, RealTimeChunks])
def test_a_stale_answer_is_asked_for_again(chunks_class: type[ChunkQueue]) -> None:
    policy = Counting(horizon=4)
    policy.more = {"stale": True}

    def observe() -> dict[str, int]:
        if len(policy.seen) == 1:
            policy.more = {}
        return {"x": 10 * len(policy.seen)}

    with chunks_class(policy, limit_ms=1000) as chunks:
        assert chunks.step(observe)[0] == 10
        assert chunks.num_stale == 1
        assert not chunks.is_stale


def test_a_stale_answer_is_flagged_where_there_is_no_limit() -> None:
    policy = Counting(horizon=4)
    policy.more = {"stale": True}
    with ChunkQueue(policy, blend=None) as queue:
        assert queue.step({"x": 5})[0] == 5
        assert queue.is_stale
        policy.more = {}
        queue.step({"x": 6})
        queue.step({"x": 7})
        assert not queue.is_stale


def test_the_deadline_of_the_user_wins_over_the_rate() -> None:
    policy = Counting(horizon=4)
    with RealTimeChunks(policy, execute=2, rate_hz=50, deadline_ms=7.0) as chunks:
        for step in range(6):
            chunks.step({"x": step})
            time.sleep(0.01)
    assert len(policy.requests) > 1
    assert all(request == {"deadline_ms": 7.0} for request in policy.requests)


def test_mistakes_are_answered_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="limit_ms is 0, expected more than 0, or None"):
        StepLimit(0, "raise")
    with pytest.raises(
        ValueError, match="meanwhile is 'stop', expected one of raise, finish, hold"
    ):
        StepLimit(10, "stop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="meanwhile is 'hold', but there is no limit_ms"):
        StepLimit(None, "hold")
