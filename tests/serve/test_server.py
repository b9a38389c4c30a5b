"""Many clients of one server: batches, deadlines, limits."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from oatkit_client import Client
from oatkit_client.wire import pack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from oatkit.policies import Policy
from tests.serve.slow import OBSERVATION, STATE, SlowPolicy
from tests.serve.talking import get, served, wait_until


def test_web_pages_are_refused(url: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(url, origin="https://example.org").__enter__()  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403


def test_many_clients_are_batched(light: Policy) -> None:
    policy = SlowPolicy(light)
    with served(policy, max_batch=8) as url:
        policy.batches.clear()
        policy.gate.clear()

        def work(number: int) -> list[Any]:
            with Client(url) as client:
                state = STATE + np.float32(number)
                message = {**OBSERVATION, "observation/state": state}
                return [client.infer(message)["actions"] for _ in range(4)]

        with ThreadPoolExecutor(12) as pool:
            running = [pool.submit(work, number) for number in range(12)]
            wait_until(lambda: sum(policy.batches) + depth(url) == 12)
            policy.gate.set()
            chunks = [one.result() for one in running]
    assert all(chunk.shape == (8, 3) for some in chunks for chunk in some)
    assert sum(policy.batches) == 48
    first, second, *_ = policy.batches
    # those of the first batch may have asked again
    assert min(8, 12 - first) <= second <= 8, "all that gathered meanwhile, up to the largest batch"


def depth(url: str) -> int:
    found = re.search(r"^oatkit_queue_depth (\d+)", get(url, "/metrics")[1], re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_messages_of_any_size_are_bounded(light: Policy) -> None:
    with served(light, max_message_bytes=1000) as url:
        with connect(url, compression=None) as socket:
            socket.recv()
            socket.send(pack({**OBSERVATION, "x": np.zeros(1000)}))
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        with Client(url) as client:
            assert client.infer(OBSERVATION)["budget_used"] == 8


def test_deadlines_are_kept_under_load(light: Policy) -> None:
    """A stage takes 10 ms: alone all 4 fit in 150 ms, and with others in the queue fewer do."""
    policy = SlowPolicy(light, stage_s=0.01)
    with served(policy, max_batch=2) as url:
        with Client(url) as client:
            easy = client.infer(OBSERVATION, deadline_ms=5000)
            hard = client.infer(OBSERVATION, deadline_ms=1)
        assert (easy["budget_used"], easy["deadline_met"]) == (8, True)
        assert (hard["budget_used"], hard["deadline_met"]) == (1, False)

        def work(request: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
            found = []
            with Client(url) as client:
                for _ in range(5):
                    began = time.perf_counter()
                    reply = client.infer(OBSERVATION, **request)
                    found.append((1000 * (time.perf_counter() - began), reply))
            return found

        with ThreadPoolExecutor(8) as pool:
            first = [ms for some in pool.map(work, [{"budget": 1}] * 8) for ms, _ in some]
            deadline_ms = max(400, 3 * max(first))  # the first prefix fits, on a busy machine too
            asked = [{"deadline_ms": deadline_ms}] * 8
            replies = [reply for some in pool.map(work, asked) for _, reply in some]
    met = sum(reply["deadline_met"] for reply in replies)
    assert met >= 0.9 * len(replies)


def test_a_budget_that_is_impossible_is_told_at_the_start(light: Policy) -> None:
    with pytest.raises(ValueError, match="budget 9 is outside"), served(light, budget=9):
        pass
