"""Settings of a server that make no sense are refused."""

from __future__ import annotations

from typing import Any

import pytest

from oatkit.serve import ServeConfig


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_batch": 0}, "max_batch is 0, expected at least 1"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0, expected more than 0"),
        ({"port": 70000}, "port is 70000, expected 0 to 65535"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ServeConfig(**settings)
