"""The `tf.train.Example` message: names to lists of bytes, floats or integers.

Only where the values lie is read, and their bytes when they are asked for: a record holds all
images of an episode, of which a training wants one. That is why the message, which has four levels
of protocol buffers and no more, is walked here instead of parsed by a library.

    Example   1: Features
    Features  1: {1: name, 2: Feature}, repeated
    Feature   1: BytesList, 2: FloatList or 3: Int64List
    a list    1: value, repeated
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from oatkit.data.formats.tfrecord import Span

BYTES, FLOATS, INTEGERS = 1, 2, 3
"""Fields of a Feature."""
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types of protocol buffers."""
MAX_VARINT_BYTES = 10


def feature_spans(data: memoryview, record: Span) -> dict[str, Span]:
    """Name of each feature of an Example to where it lies."""
    spans = {}
    for features in _values(data, record, 1):
        for entry in _values(data, features, 1):
            (name,), (feature,) = _values(data, entry, 1), _values(data, entry, 2) or [(0, 0)]
            spans[str(data[slice(*name)], "utf-8")] = feature
    return spans


def byte_spans(data: memoryview, feature: Span) -> list[Span]:
    """Where each of a feature's byte strings lies."""
    for number, values in _fields(data, feature):
        if number != BYTES:
            raise ValueError("numbers where bytes were expected")
        return _values(data, values, 1)
    return []


def read_numbers(data: memoryview, feature: Span) -> NDArray[np.float32] | NDArray[np.int64]:
    """The numbers of a feature, whether they are packed or not."""
    for number, values in _fields(data, feature):
        joined = b"".join(bytes(data[start:end]) for start, end in _values(data, values, 1))
        if number == FLOATS:
            return np.frombuffer(joined, "<f4")
        if number == INTEGERS:
            return read_varints(joined)
        raise ValueError("bytes where numbers were expected")
    return np.zeros(0, np.float32)


def read_varints(data: bytes) -> NDArray[np.int64]:
    """Integers of seven bits a byte, lowest first; the highest bit says that more bytes follow."""
    octets = np.frombuffer(data, np.uint8)
    if not len(octets):
        return np.zeros(0, np.int64)
    is_last = octets < 0x80
    if is_last.all():
        return octets.astype(np.int64)
    if not is_last[-1]:
        raise ValueError("an integer has no end")
    ends = np.flatnonzero(is_last) + 1
    starts = np.concatenate([[0], ends[:-1]])
    if (ends - starts).max() > MAX_VARINT_BYTES:
        raise ValueError("an integer has too many bytes")
    shifts = 7 * (np.arange(len(octets)) - np.repeat(starts, ends - starts))
    parts = (octets & 0x7F).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


def _values(data: memoryview, message: Span, field: int) -> list[Span]:
    """Where the values of one field of a message lie."""
    return [span for number, span in _fields(data, message) if number == field]


def _fields(data: memoryview, message: Span) -> Iterator[tuple[int, Span]]:
    """(number, where its value lies) of each field of a message."""
    place, end = message
    while place < end:
        tag, place = _varint(data, place, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == DELIMITED:
            size, place = _varint(data, place, end)
        elif wire_type == VARINT:
            size = _varint(data, place, end)[1] - place
        elif wire_type in (FIXED32, FIXED64):
            size = 4 if wire_type == FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire_type} at byte {place} is unknown")
        if place + size > end:
            raise ValueError(f"field {number} at byte {place} is longer than its message")
        yield number, (place, place + size)
        place += size


def _varint(data: memoryview, place: int, end: int) -> tuple[int, int]:
    """An integer and where it ends."""
    value = shift = 0
    while place < end and shift < 7 * MAX_VARINT_BYTES:
        octet = data[place]
        value |= (octet & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if octet < 0x80:
            return value, place
    raise ValueError(f"the integer at byte {place} has no end")
