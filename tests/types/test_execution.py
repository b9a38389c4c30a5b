"""How much of a chunk is executed."""

from __future__ import annotations

from typing import Any

import pytest

from oatkit.types import Execution


def test_half_a_chunk_by_default() -> None:
    assert Execution().within(32) == Execution(steps=16)
    assert Execution().within(1).steps == 1
    assert Execution("auto", blend=0.1).within(8) == Execution("auto", blend=0.1)
    assert Execution(8, delay=24).within(32).delay == 24
    assert Execution("auto", delay=31).within(32).delay == 31


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "execute is 0, expected 1 or more"),
        ({"steps": 33}, "execute is 33, expected 1 to 32, a whole chunk"),
        ({"steps": "often"}, "execute is 'often', expected a number of steps or 'auto'"),
        ({"steps": True}, "execute is True, expected a number of steps or 'auto'"),
        ({"steps": 2.5}, "execute is 2.5, expected a number of steps or 'auto'"),
        ({"delay": -1}, "delay is -1, expected 0 or more"),
        ({"steps": 8, "delay": 25}, "delay is 25, expected at most 24: a chunk has 32 steps, of"),
        ({"delay": 17}, "delay is 17, expected at most 16"),
        ({"steps": "auto", "delay": 32}, "delay is 32, expected at most 31"),
        ({"blend": -0.1}, "blend is -0.1, expected 0 or more"),
        ({"blend": float("nan")}, "blend is nan, expected 0 or more"),
        ({"draws": 0}, "draws is 0, expected 1 or more"),
        (
            {"commit": True},
            "commit is for chunks that act late, and delay is 0: give a delay of 1 or more, or "
            "leave commit out",
        ),
    ],
)
def test_bad_settings(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Execution(**values).within(32)
