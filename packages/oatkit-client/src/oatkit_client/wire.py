"""openpi's wire format: msgpack with numpy arrays, and nothing that runs code when it is read.

array    {b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [3, 4]}
scalar   {b"__npgeneric__": True, b"data": 1.5, b"dtype": "<f4"}
"""

from __future__ import annotations

from typing import Any, Sequence

import msgpack
import numpy as np

from oatkit_client.errors import shortened

REFUSED_KINDS = "OVc"
"""Kinds of arrays that are refused, as in openpi: objects, records and complex numbers."""
MAX_DIMS = 32
"""Maximum number of dimensions of an array, as in numpy 1; to multiply the sizes of many more would
take long."""


class WireError(ValueError):
    """Bytes that are no message, or a value that cannot be sent."""


def pack(message: Any) -> bytes:
    """A message of dicts, lists, numbers, texts and numpy arrays as bytes."""
    try:
        return msgpack.packb(message, default=_encode)
    except (TypeError, OverflowError) as error:
        raise WireError(f"this cannot be sent: {error}") from error


def unpack(data: bytes) -> Any:
    """The inverse of `pack`; arrays share memory with `data` and are read-only."""
    try:
        return msgpack.unpackb(data, object_hook=_decode)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"the message is no msgpack: {error or type(error).__name__}") from error


def _encode(value: Any) -> Any:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"a {type(value).__name__} is neither text, number, list, dict nor array")
    if value.dtype.kind in REFUSED_KINDS:
        raise TypeError(f"arrays of {value.dtype} are refused")
    if isinstance(value, np.ndarray):
        return {
            b"__ndarray__": True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}


def _decode(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value:
        dtype, shape, data = _dtype(value), value.get(b"shape"), value.get(b"data")
        if not isinstance(shape, (list, tuple)) or len(shape) > MAX_DIMS or not _are_sizes(shape):
            raise WireError(f"an array has shape {shortened(shape)}, expected whole numbers")
        if not isinstance(data, bytes):
            raise WireError("the data of an array are no bytes")
        num_bytes = dtype.itemsize
        for size in shape:
            num_bytes *= size
        if num_bytes != len(data):
            raise WireError(
                f"an array of {dtype} {shortened(shape)} has {len(data)} bytes, expected "
                f"{num_bytes}"
            )
        if not data:
            return np.zeros(shape, dtype)
        return np.ndarray(tuple(shape), dtype, data)
    if b"__npgeneric__" in value:
        dtype = _dtype(value)
        try:
            return dtype.type(value.get(b"data"))
        except (TypeError, ValueError, OverflowError) as error:
            raise WireError(f"a scalar is no {dtype}: {error}") from error
    return value


def _are_sizes(shape: Sequence[Any]) -> bool:
    return all(isinstance(size, int) and size >= 0 for size in shape)


def _dtype(value: dict[Any, Any]) -> np.dtype[Any]:
    name = value.get(b"dtype")
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind in REFUSED_KINDS:
        raise WireError(f"arrays of dtype {shortened(name)} are refused")
    return dtype
