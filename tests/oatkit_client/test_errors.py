"""Errors of the client, and how much of a value they show."""

from __future__ import annotations

import oatkit_client
import pytest
from oatkit_client.errors import ClientError, shortened


def test_every_error_of_the_client_is_one() -> None:
    names = ("ConnectionFailed", "Refused", "RequestTimeout", "ServerBusy", "ServerError")
    assert all(issubclass(getattr(oatkit_client, name), ClientError) for name in names)
    assert issubclass(oatkit_client.RequestTimeout, TimeoutError)
    assert issubclass(oatkit_client.ConnectionFailed, ConnectionError)


@pytest.mark.parametrize("value", [3, "short", None, [1, 2], {"a": 1}])
def test_small_values_are_shown_whole(value: object) -> None:
    assert shortened(value) == repr(value)


@pytest.mark.parametrize("value", ["x" * 10**6, [0] * 10**6, {"a": "x" * 10**6}, b"x" * 10**6])
def test_large_values_are_cut(value: object) -> None:
    text = shortened(value)
    assert len(text) == 80
    assert text.endswith("...")
