"""How much of a chunk is executed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.types import Execution

STEPS = "expected a whole number from 1 on, 'auto' or None"
BLEND = "expected a finite number from 0 on, or None"


def test_half_a_chunk_by_default() -> None:
    assert Execution().within(32) == Execution(steps=16)
    assert Execution().within(1).steps == 1
    assert Execution("auto", blend=0.1).within(8) == Execution("auto", blend=0.1)
    assert Execution(8, delay=24).within(32).delay == 24
    assert Execution("auto", delay=31).within(32).delay == 31


WHOLE = st.integers(0, 40)
NUMPY = st.sampled_from([np.int8, np.int64, np.uint16])


@given(steps=st.integers(1, 40), delay=WHOLE, draws=st.integers(1, 40), kind=NUMPY)
def test_numbers_of_numpy_are_numbers(steps: int, delay: int, draws: int, kind: Any) -> None:
    """They become Python's own, which a record can hold."""
    plain = Execution(steps, 0.5, delay, draws, commit=delay > 0)
    given: list[Any] = [np.float32(0.5), kind(delay), kind(draws), np.bool_(delay > 0)]
    found = Execution(kind(steps), *given)
    assert found == plain
    assert json.dumps(asdict(found)) == json.dumps(asdict(plain))
    word: Any = np.str_("auto")
    assert Execution(word) == Execution("auto")


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.just("auto"),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([np.float64(2.5), np.int64(-1), np.bool_(True), np.arange(2), 2 + 0j]),
)


@given(st.sampled_from(["steps", "blend", "delay", "draws", "commit"]), ANYTHING)
def test_a_field_is_what_it_says_or_an_error_that_names_it(name: str, value: Any) -> None:
    if is_one(name, value):
        assert getattr(Execution(**{name: value}), name) == value
        return
    named = "execute is " if name == "steps" else f"{name} is "
    with pytest.raises(ValueError, match=f"^{named}"):
        Execution(**{name: value})


def is_one(name: str, value: Any) -> bool:
    """Whether a value is one of a field; without a delay nothing can be committed."""
    if name == "commit":
        return value is False
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if name == "blend" and value is not None:
        is_number = is_number or isinstance(value, float | np.floating)
        return is_number and 0 <= value < math.inf
    if name in ("steps", "blend") and (value is None or isinstance(value, str)):
        return value is None or (name, value) == ("steps", "auto")
    return is_number and value >= (0 if name == "delay" else 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, f"execute is 0, {STEPS}"),
        ({"steps": np.int64(0)}, f"execute is 0, {STEPS}"),
        ({"steps": 33}, "execute is 33, expected 1 to 32, a whole chunk"),
        ({"steps": "often"}, f"execute is 'often', {STEPS}"),
        ({"steps": "8"}, f"execute is '8', {STEPS}"),
        ({"steps": True}, f"execute is True, {STEPS}"),
        ({"steps": 2.5}, f"execute is 2.5, {STEPS}"),
        ({"delay": -1}, "delay is -1, expected a whole number from 0 on"),
        ({"delay": 1.5}, "delay is 1.5, expected a whole number from 0 on"),
        ({"delay": "2"}, "delay is '2', expected a whole number from 0 on"),
        ({"delay": None}, "delay is None, expected a whole number from 0 on"),
        ({"steps": 8, "delay": 25}, "delay is 25, expected at most 24: a chunk has 32 steps, of"),
        ({"delay": 17}, "delay is 17, expected at most 16"),
        ({"steps": "auto", "delay": 32}, "delay is 32, expected at most 31"),
        ({"blend": -0.1}, f"blend is -0.1, {BLEND}"),
        ({"blend": float("nan")}, f"blend is nan, {BLEND}"),
        ({"blend": True}, f"blend is True, {BLEND}"),
        ({"blend": "x"}, f"blend is 'x', {BLEND}"),
        ({"draws": 0}, "draws is 0, expected a whole number from 1 on"),
        ({"draws": 2.5}, "draws is 2.5, expected a whole number from 1 on"),
        ({"commit": "no"}, "commit is 'no', expected True or False"),
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
