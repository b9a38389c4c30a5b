"""One action at a time, from chunks that come in time, late or not at all."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oatkit_client import (
    ChunkQueue,
    Client,
    RealTimeChunks,
    ServerError,
)

from oatkit.serve import ServeConfig, serving
from tests.oatkit_client.counting import Counting
from tests.serve.slow import OBSERVATION, make_policy


def test_chunk_queue_executes_the_first_part() -> None:
    policy = Counting()
    queue = ChunkQueue(policy, blend=None, budget="auto")
    actions = [int(queue.step({"x": 100 * step})[0]) for step in range(6)]
    assert actions == [0, 1, 2, 3, 400, 401]
    assert policy.seen == [0, 400]
    assert policy.requests[0] == {"budget": "auto"}
    queue.reset()
    assert queue.step(lambda: {"x": 7})[0] == 7
    assert policy.num_resets == 1
    with pytest.raises(ValueError, match="execute is 0, expected a whole number from 1 on"):
        ChunkQueue(policy, execute=0)


@given(st.integers(1, 8), st.integers(1, 30))
def test_a_number_of_steps_is_executed_and_no_more(execute: int, num_steps: int) -> None:
    """The sequence of a plain queue that is filled with the first steps of a chunk."""
    queue, plain, expected = ChunkQueue(Counting(), execute, blend=None), deque[int](), []
    for step in range(num_steps):
        if not plain:
            plain.extend(100 * step + t for t in range(execute))
        expected.append(plain.popleft())
    assert [int(queue.step({"x": 100 * step})[0]) for step in range(num_steps)] == expected


def test_chunk_queue_executes_what_the_policy_finds_worth_it() -> None:
    policy = Counting()
    queue = ChunkQueue(policy, "auto", blend=None)
    actions = []
    for step in range(8):
        policy.more = {"execute_steps": 2 if step == 0 else 5}
        actions.append(int(queue.step({"x": 100 * step})[0]))
    assert actions == [0, 1, 200, 201, 202, 203, 204, 700]
    assert queue.reply["execute_steps"] == 5


def test_chunk_queue_blends_chunks() -> None:
    """With blend 0 all chunks count alike."""
    queue = ChunkQueue(Counting(horizon=4), execute=2, blend=0.0)
    actions = [float(queue.step({"x": 100 * step})[0]) for step in range(6)]
    assert actions == [0, 1, (2 + 200) / 2, (3 + 201) / 2, (202 + 400) / 2, (203 + 401) / 2]
    queue.reset()
    assert queue.step({"x": 9})[0] == 9, "chunks of an episode do not reach into the next"


def test_chunks_are_blended_by_default() -> None:
    """A seam of 100 falls to the share of the newer chunk."""
    queue = ChunkQueue(Counting(horizon=32))
    actions = [float(queue.step({"x": step if step < 16 else step + 100})[0]) for step in range(17)]
    newer = 1 / (1 + np.exp(-0.1 * 16))
    assert actions[16] - actions[15] == pytest.approx(1 + 100 * newer)


def test_mistakes_are_answered_in_a_sentence() -> None:
    for chunks in (ChunkQueue, RealTimeChunks):
        with pytest.raises(ValueError, match="execute is 'most', expected a whole number"):
            chunks(Counting(), execute="most")
        with pytest.raises(ValueError, match="blend is -1, expected a finite number from 0 on"):
            chunks(Counting(), blend=-1)
        long = chunks(Counting(), execute=9)
        with pytest.raises(ValueError, match="execute is 9, expected 1 to 8, the steps of a chunk"):
            long.step({"x": 0})
        auto = chunks(Counting(), execute="auto")
        with pytest.raises(ValueError, match="execute is 'auto', but the reply has no execute_ste"):
            auto.step({"x": 0})
        for one in (long, auto):
            if isinstance(one, RealTimeChunks):
                one.close()


def test_chunk_queue_does_not_look_more_often_than_it_asks() -> None:
    looks: list[int] = []

    def look() -> dict[str, int]:
        looks.append(1)
        return {"x": 0}

    queue = ChunkQueue(Counting(), execute=3)
    for _ in range(7):
        queue.step(look)
    assert len(looks) == 3


def wait_for(policy: Counting, chunks: RealTimeChunks, num_requests: int) -> None:
    """Until the request is made and, where the gate is open, answered."""
    while len(policy.seen) < num_requests:
        time.sleep(0.001)
    pending = chunks._background._requests._pending
    if policy.gate.is_set() and pending is not None:
        pending.exception()


def test_real_time_goes_on_while_it_asks() -> None:
    """Step s observes x = s, so that an action of a chunk in time is the number of its step."""
    policy = Counting()
    with RealTimeChunks(policy, execute=3, rate_hz=50) as chunks:
        actions = [int(chunks.step({"x": step})[0]) for step in range(3)]
        policy.gate.clear()
        actions.append(int(chunks.step({"x": 3})[0]))
        wait_for(policy, chunks, 2)
        actions += [int(chunks.step({"x": step})[0]) for step in (4, 5)]
        policy.gate.set()
        wait_for(policy, chunks, 2)
        assert chunks.num_waits == 0
        before = len(policy.seen)
        actions += [int(chunks.step({"x": step})[0]) for step in range(6, 8)]
    assert actions == list(range(8)), "what was past when the second chunk came was left out"
    assert policy.seen[:2] == [0, 3]
    assert before == 2
    assert policy.requests[0] == {}, "nothing runs out while there is nothing"
    assert policy.requests[1] == {"deadline_ms": pytest.approx(100)}, "5 steps were left at 50 Hz"


@settings(max_examples=30, deadline=None)
@given(
    execute=st.one_of(st.none(), st.just("auto"), st.integers(1, 8)),
    blend=st.one_of(st.none(), st.floats(0, 2)),
    is_answered=st.lists(st.booleans(), min_size=1, max_size=25),
)
def test_whenever_chunks_come_every_action_is_of_its_moment(
    execute: Any, blend: float | None, is_answered: list[bool]
) -> None:
    """Step s observes x = s, so that all chunks plan the number s for it; a request is answered
    before the next step where the script says so, at the latest when nothing is left."""
    policy = Counting()
    policy.more = {"execute_steps": 3}
    with RealTimeChunks(policy, execute, blend=blend) as chunks:
        for step, is_open in enumerate(is_answered):
            if is_open or not chunks._plan.num_left:
                policy.gate.set()
                wait_for(policy, chunks, len(policy.seen))
            else:
                policy.gate.clear()
            assert chunks.step({"x": step})[0] == pytest.approx(step, abs=1e-4)
        policy.gate.set()


def test_real_time_counts_a_late_chunk_by_its_age() -> None:
    """The second chunk, asked for at step 2, comes at step 4: it is 2 steps old then, the first
    one 4."""
    policy = Counting()
    with RealTimeChunks(policy, execute=2, blend=0.5) as chunks:
        assert [chunks.step({"x": x})[0] for x in (0, 0)] == [0, 1]
        policy.gate.clear()
        assert [chunks.step({"x": x})[0] for x in (100, 0)] == [2, 3]
        wait_for(policy, chunks, 2)
        policy.gate.set()
        wait_for(policy, chunks, 2)
        old, new = np.exp(-0.5 * 4), np.exp(-0.5 * 2)
        expected = (old * 4 + new * 102) / (old + new)
        assert chunks.step({"x": 0})[0] == pytest.approx(expected)


class Committing(Counting):
    metadata: ClassVar = {"takes_committed": True}


class Older(Counting):
    metadata: ClassVar = {"horizon": 8}


class Whole(Counting):
    metadata: ClassVar = {"takes_committed": False}


@pytest.mark.parametrize("kind", [Counting, Older, Whole])
@pytest.mark.parametrize("limit_ms", [None, 60_000])
@pytest.mark.parametrize("method", ["prepare", "step"])
def test_a_policy_that_takes_no_committed_actions_is_never_asked(
    kind: Any, limit_ms: float | None, method: str
) -> None:
    policy = kind()
    said = (
        "commit is for policies whose metadata has takes_committed, which this one has not: leave "
        "commit out"
    )
    meanwhile: Any = "hold" if limit_ms else "raise"
    with RealTimeChunks(policy, commit=True, limit_ms=limit_ms, meanwhile=meanwhile) as chunks:
        for _ in range(2):
            with pytest.raises(ValueError, match=said):
                getattr(chunks, method)({"x": 0})
    assert policy.seen == []


def committed(policy: Counting) -> list[Any]:
    """First dimension of what each request committed."""
    told = [request.get("committed") for request in policy.requests]
    return [None if actions is None else actions[:, 0].tolist() for actions in told]


def test_real_time_tells_what_is_executed_until_the_chunk_comes() -> None:
    """A request commits as many steps as the latest of the last replies took; step s sees x = s."""
    policy = Committing()
    with RealTimeChunks(policy, execute=3, blend=None, commit=True) as chunks:
        for step in range(4):  # the second request, at step 3, comes 3 steps late
            if step == 3:
                policy.gate.clear()
            chunks.step({"x": step})
        for step in (4, 5):
            chunks.step({"x": step})
        policy.gate.set()
        wait_for(policy, chunks, 2)
        for step in range(6, 10):  # takes it in at 6, and asks at once
            chunks.step({"x": step})
            wait_for(policy, chunks, len(policy.seen))
    assert policy.seen == [0, 3, 6, 9]
    assert committed(policy) == [None, [3], [6, 7, 8], [9, 10, 11]]


def test_what_is_committed_ends_with_the_plan() -> None:
    policy = Committing(horizon=4)
    with RealTimeChunks(policy, execute=3, blend=None, commit=True) as chunks:
        chunks._background.late_steps.extend([9])
        for step in range(4):
            chunks.step({"x": step})
            wait_for(policy, chunks, len(policy.seen))
    assert committed(policy) == [None, [3]]


class Drawing(Counting):
    """Draws of which the second goes on where the plan does, in units of its own."""

    action_scale = np.array([10.0])

    def infer(self, obs: Any, **request: Any) -> dict[str, Any]:
        reply = super().infer(obs, **request)
        chunk = reply["actions"]
        return {**reply, "draws": [chunk + 50, chunk, chunk - 60]}


@pytest.mark.parametrize("execution", [ChunkQueue, RealTimeChunks])
def test_the_draw_nearest_to_the_plan_is_executed(execution: Any) -> None:
    policy = Drawing()
    with execution(policy, execute=3, blend=None, draws=3) as chunks:
        actions = []
        for step in range(8):
            actions.append(int(chunks.step({"x": step})[0]))
            wait_for(policy, chunks, len(policy.seen))
    assert actions == list(range(8))
    assert policy.requests[0] == {"draws": 3}


def test_real_time_waits_where_nothing_is_left() -> None:
    policy = Counting(horizon=2)
    with RealTimeChunks(policy, execute=1) as chunks:
        assert chunks.step({"x": 0})[0] == 0
        policy.gate.clear()
        assert chunks.step({"x": 1})[0] == 1

        def open_gate() -> None:
            while not chunks.num_waits:
                time.sleep(0.001)
            policy.gate.set()

        opener = threading.Thread(target=open_gate)
        opener.start()
        assert chunks.step({"x": 2})[0] == 2
        opener.join()
        assert chunks.num_waits == 1


def test_real_time_raises_only_where_nothing_is_left() -> None:
    policy = Counting(horizon=4)
    with RealTimeChunks(policy, execute=1) as chunks:
        assert chunks.step({"x": 0})[0] == 0
        policy.failure = ServerError("no")
        for step in (1, 2, 3):
            assert chunks.step({"x": step})[0] == step
            wait_for(policy, chunks, step + 1)
        with pytest.raises(ServerError, match="no"):
            chunks.step({"x": 4})
        assert chunks.num_failures >= 3
        policy.failure = None
        chunks.reset()
        assert chunks.step({"x": 9})[0] == 9


def test_real_time_forgets_an_episode() -> None:
    policy = Counting()
    with RealTimeChunks(policy, execute=1) as chunks:
        chunks.step({"x": 0})
        policy.gate.clear()
        chunks.step({"x": 1})
        wait_for(policy, chunks, 2)
        chunks.reset()
        assert policy.num_resets == 0, "the request under way is of the episode before"
        policy.gate.set()
        assert chunks.step({"x": 500})[0] == 500
        assert policy.num_resets == 1
        assert chunks.num_waits == 0


def test_nothing_is_asked_after_closing() -> None:
    policy = Counting()
    with RealTimeChunks(policy, execute=1) as chunks:
        chunks.step({"x": 0})
        policy.gate.clear()
        chunks.step({"x": 1})
        threading.Timer(0.05, policy.gate.set).start()
    num_requests = len(policy.seen)
    time.sleep(0.05)
    assert len(policy.seen) == num_requests
    assert not any(thread.name.startswith("oatkit-client") for thread in threading.enumerate())


def test_real_time_with_a_server(tmp_path: Path) -> None:
    with (
        serving(make_policy(tmp_path), ServeConfig(port=0, max_batch=1)) as url,
        Client(url) as client,
        RealTimeChunks(client, rate_hz=1000, budget=4) as chunks,
    ):
        actions = [chunks.step(OBSERVATION) for _ in range(20)]
    assert np.shape(actions) == (20, 3)
    assert chunks.reply["budget_used"] <= 4


def test_committed_actions_and_draws_with_a_server(tmp_path: Path) -> None:
    with (
        serving(make_policy(tmp_path), ServeConfig(port=0, max_batch=1)) as url,
        Client(url) as client,
        RealTimeChunks(client, execute=2, rate_hz=100, commit=True, draws=3) as chunks,
    ):
        assert client.metadata["takes_committed"] is True
        actions = [chunks.step(OBSERVATION) for _ in range(12)]
        assert np.shape(actions) == (12, 3)
        assert len(chunks.reply["draws"]) == 3
        told = np.asarray(client.metadata["normalization"]["action"]["scale"])
        np.testing.assert_array_equal(client.action_scale, told)
        plain = client.infer(OBSERVATION, sampling={"temperature": 0})
        none = client.infer(OBSERVATION, sampling={"temperature": 0}, committed=np.zeros((0, 3)))
        assert none["tokens"] == plain["tokens"]
        with pytest.raises(ServerError, match=r"committed is \(1, 2\), expected \(steps, 3\)"):
            client.infer(OBSERVATION, committed=np.zeros((1, 2)))
        with pytest.raises(ServerError, match="committed is not finite"):
            client.infer(OBSERVATION, committed=np.full((1, 3), np.nan))
