"""A server in a thread of this process begins and ends whole."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import pytest

from oatkit.policies import Policy
from tests.serve.talking import served


def test_a_port_that_is_taken(light: Policy, url: str) -> None:
    port = urlsplit(url).port
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="address already in use"), served(light, port=port):
        pass
    assert set(threading.enumerate()) <= before, "nothing is left that waits for requests"
