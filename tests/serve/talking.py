"""Servers of a few lines, and plain HTTP to them."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any
from urllib.parse import urlsplit

from oatkit.serve import ServeConfig, serving


def served(policy: Any, **settings: Any) -> AbstractContextManager[str]:
    """A server with some settings, as a context that gives its address."""
    return serving(policy, ServeConfig(**{"port": 0, "max_batch": 2, **settings}))


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    """Status and body of an HTTP request."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something is so, however busy the machine is."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
