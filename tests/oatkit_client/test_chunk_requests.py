"""One request at a time, in the background."""

from __future__ import annotations

import threading

import pytest
from oatkit_client.chunk_requests import ChunkRequests

from tests.oatkit_client.counting import Counting


def test_a_reply_is_taken_once_it_is_there() -> None:
    policy = Counting()
    policy.gate.clear()
    requests = ChunkRequests(policy)
    requests.ask({"x": 3}, 5, budget=2)
    assert requests.is_pending
    assert requests.take(0.01) is None
    policy.gate.set()
    reply = requests.take(None)
    assert reply is not None
    assert (int(reply["actions"][0, 0]), requests.asked_at, policy.requests) == (
        3,
        5,
        [{"budget": 2}],
    )
    assert not requests.is_pending
    requests.close()


def test_a_failure_is_raised_where_it_is_taken() -> None:
    policy = Counting()
    policy.failure = OSError("gone")
    requests = ChunkRequests(policy)
    requests.ask({"x": 0}, 0)
    with pytest.raises(OSError, match="gone"):
        requests.take(None)
    assert not requests.is_pending
    requests.close()


def test_an_episode_ends_after_the_request_that_is_under_way() -> None:
    policy = Counting()
    requests = ChunkRequests(policy)
    requests.reset()
    assert policy.num_resets == 1, "at once, where nothing is under way"
    assert threading.active_count() == 1 or not any(
        thread.name.startswith("oatkit-client") for thread in threading.enumerate()
    )
    policy.gate.clear()
    requests.ask({"x": 0}, 0)
    requests.reset()
    assert policy.num_resets == 1
    policy.gate.set()
    requests.close()
    assert policy.num_resets == 2


def test_commit_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="commit is 'no', expected True or False"):
        ChunkRequests(Counting(), commit="no")  # type: ignore[arg-type]
