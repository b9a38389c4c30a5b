from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.formats import tfrecord
from oatkit.data.formats.tfrecord import map_file, masked_checksum, read_records
from oatkit.errors import DatasetError
from tests.data import rlds_writer


def write(path: Path, records: list[bytes]) -> Path:
    path.write_bytes(rlds_writer.tfrecord(records))
    return path


def read(path: Path) -> list[bytes]:
    data = map_file(path)
    return [bytes(data[start:end]) for start, end in read_records(path)]


def test_checksums_are_those_of_the_standard() -> None:
    """The check value of CRC-32C, and the mask as TFRecord defines it."""
    assert rlds_writer.crc32c(b"123456789") == 0xE3069283
    turned = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    assert masked_checksum(b"123456789") == (turned + 0xA282EAD8) % 2**32


@given(st.binary(max_size=300))
def test_checksums_are_those_of_bits_one_by_one(data: bytes) -> None:
    assert masked_checksum(data).to_bytes(4, "little") == rlds_writer.masked(
        rlds_writer.crc32c(data)
    )


def test_checksums_of_pieces_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = masked_checksum(bytes(range(256)))
    monkeypatch.setattr(tfrecord, "BYTES_PER_PIECE", 7)
    assert masked_checksum(bytes(range(256))) == whole


@pytest.mark.parametrize("records", [[], [b""], [b"one", b"", b"three" * 50]])
def test_records_come_back(records: list[bytes], tmp_path: Path) -> None:
    assert read(write(tmp_path / "d", records)) == records


def test_a_file_that_changes_is_mapped_again(tmp_path: Path) -> None:
    path = write(tmp_path / "d", [b"before"])
    assert read(path) == [b"before"]
    path.unlink()
    assert read(write(path, [b"and after"])) == [b"and after"]


@pytest.mark.parametrize("place", range(12 + 5 + 4))
def test_every_flipped_byte_is_found(place: int, tmp_path: Path) -> None:
    path = write(tmp_path / "d", [b"first", b"second"])
    data = bytearray(path.read_bytes())
    data[21 + place] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"d: record 1 at byte 21 is damaged: its checksum is"):
        read(path)


@pytest.mark.parametrize("size", range(1, 21))
def test_every_truncation_is_found(size: int, tmp_path: Path) -> None:
    path = write(tmp_path / "d", [b"first"])
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DatasetError, match=r"d: record 0 at byte 0 cannot be read"):
        read(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="d cannot be read: No such file"):
        read(tmp_path / "d")
