"""The wire format is openpi's, and broken bytes are one kind of error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from oatkit_client.wire import WireError, pack, unpack

DTYPES = st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, ">i4", "<U3"])


def test_arrays_are_openpis_bytes() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert pack({"a": array, "b": np.float32(1.5)}) == msgpack.packb(
        {
            "a": {
                b"__ndarray__": True,
                b"data": array.tobytes(),
                b"dtype": "<f4",
                b"shape": (2, 3),
            },
            "b": {b"__npgeneric__": True, b"data": 1.5, b"dtype": "<f4"},
        }
    )


@given(arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, min_side=0)))
def test_arrays_survive(array: Any) -> None:
    back = unpack(pack({"x": [array]}))["x"][0]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_scalars_and_plain_values_survive() -> None:
    message = {"i": np.int64(3), "t": np.str_("open"), "n": None, "l": [1, 2.5, "x", True]}
    assert unpack(pack(message)) == message


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.zeros(2, "f4,f4"), np.zeros(2, complex), {1, 2}, object()]
)
def test_what_cannot_be_sent(value: Any) -> None:
    with pytest.raises(WireError, match="cannot be sent"):
        pack({"x": value})


def broken(**changes: Any) -> bytes:
    fields = {"__ndarray__": True, "data": b"\0" * 8, "dtype": "<f4", "shape": [2]} | changes
    return msgpack.packb({"x": {key.encode(): value for key, value in fields.items()}})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no msgpack"),
        (b"\x80\x80", "no msgpack"),
        (b"\x81" * 2000, "no msgpack"),
        (broken(dtype="O"), "dtype 'O' are refused"),
        (broken(dtype="f4,f4"), "are refused"),
        (broken(dtype="what"), "dtype 'what' are refused"),
        (broken(dtype=["f4"]), "are refused"),
        (broken(shape=[3]), "has 8 bytes, expected 12"),
        (broken(shape=[1 << 40, 1 << 40]), "has 8 bytes, expected"),
        (broken(shape=[-1, -2]), "expected whole numbers"),
        (broken(shape=[2.0]), "expected whole numbers"),
        (broken(shape=None), "expected whole numbers"),
        (broken(data="text"), "are no bytes"),
        (msgpack.packb({b"__npgeneric__": 1, b"dtype": "<i4", b"data": "x"}), "is no int32"),
    ],
)
def test_broken_messages(data: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        unpack(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    with suppress(WireError):
        unpack(data)


@given(st.data())
def test_a_message_cut_short_or_changed_is_no_other_error(data: st.DataObject) -> None:
    whole = bytearray(pack({"observation/state": np.zeros(3), "prompt": "x", "n": np.int8(1)}))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    with suppress(WireError):
        unpack(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
