"""TFRecord files: records one after the other, each with checksums.

    uint64 length | uint32 checksum of the length | bytes | uint32 checksum of the bytes

All numbers are little-endian, and a checksum is a masked CRC-32C. This is the only file that
imports google_crc32c.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from oatkit.errors import DatasetError, MissingExtraError

try:
    import google_crc32c
except ImportError as error:
    raise MissingExtraError("data") from error

Span = tuple[int, int]
"""Start and end of some bytes."""

LENGTH_BYTES, CHECKSUM_BYTES = 8, 4
BYTES_PER_PIECE = 1 << 20


def read_records(path: Path) -> Iterator[Span]:
    """Where the bytes of each record lie in the file; every checksum is compared on the way."""
    data = map_file(path)
    place = 0
    for number in range(len(data)):
        if place == len(data):
            return
        start = place + LENGTH_BYTES + CHECKSUM_BYTES
        where = f"{path}: record {number} at byte {place}"
        if start > len(data):
            raise DatasetError(f"{where} cannot be read: the file ends within its length")
        _require_checksum(data, (place, place + LENGTH_BYTES), f"the length of {where}")
        (length,) = struct.unpack_from("<Q", data, place)
        place = start + length + CHECKSUM_BYTES
        if place > len(data):
            raise DatasetError(
                f"{where} cannot be read: it should end at byte {place}, and the file ends at "
                f"byte {len(data)}"
            )
        _require_checksum(data, (start, start + length), where)
        yield start, start + length


def map_file(path: Path) -> memoryview:
    """The bytes of a file, which take no memory of their own."""
    try:
        stat = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    return _map(path, stat.st_mtime_ns) if stat.st_size else memoryview(b"")


@lru_cache(maxsize=64)
def _map(path: Path, mtime_ns: int) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _require_checksum(data: memoryview, span: Span, where: str) -> None:
    """Compare the checksum that follows some bytes."""
    (stated,) = struct.unpack_from("<I", data, span[1])
    found = masked_checksum(data[span[0] : span[1]])
    if found != stated:
        raise DatasetError(
            f"{where} is damaged: its checksum is {found:08x}, the file says {stated:08x}; fetch "
            "the file again"
        )


def masked_checksum(data: memoryview | bytes) -> int:
    """The CRC-32C of some bytes, turned by 15 bits and shifted, as TFRecord stores it."""
    checksum = 0
    for start in range(0, len(data), BYTES_PER_PIECE):
        checksum = google_crc32c.extend(checksum, bytes(data[start : start + BYTES_PER_PIECE]))
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
