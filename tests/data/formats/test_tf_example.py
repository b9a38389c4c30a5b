from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.data.formats.tf_example import (
    byte_spans,
    feature_spans,
    read_numbers,
    read_varints,
)
from tests.data import rlds_writer

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=20)


@given(INTEGERS, FLOATS, st.lists(st.binary(max_size=200), max_size=5), st.booleans())
def test_what_was_written_is_read(
    integers: list[int], floats: list[float], texts: list[bytes], is_packed: bool
) -> None:
    values = {
        "steps/count": np.array(integers, np.int64),
        "steps/action": np.array(floats, np.float32),
        "steps/ünïcode": texts,
    }
    data = memoryview(rlds_writer.example(values, is_packed=is_packed))
    spans = feature_spans(data, (0, len(data)))
    assert list(spans) == list(values)
    assert read_numbers(data, spans["steps/count"]).tolist() == integers
    assert read_numbers(data, spans["steps/action"]).tolist() == floats
    assert [bytes(data[s:e]) for s, e in byte_spans(data, spans["steps/ünïcode"])] == texts


def test_a_feature_without_values_has_none() -> None:
    data = memoryview(rlds_writer.delimited(1, rlds_writer.delimited(1, b"\x0a\x01a")))
    spans = feature_spans(data, (0, len(data)))
    assert list(spans) == ["a"]
    assert len(read_numbers(data, spans["a"])) == len(byte_spans(data, spans["a"])) == 0


def test_fields_of_later_versions_are_passed_over() -> None:
    known = rlds_writer.example({"a": np.array([7], np.int64)})
    later = (
        b"\x78\x96\x01" + b"\x79" + bytes(8) + b"\x7d" + bytes(4) + rlds_writer.delimited(9, b"")
    )
    data = memoryview(later + known)
    assert read_numbers(data, feature_spans(data, (0, len(data)))["a"]).tolist() == [7]


def test_bytes_and_numbers_are_told_apart() -> None:
    data = memoryview(rlds_writer.example({"a": [b"x"], "b": np.ones(2, np.float32)}))
    spans = feature_spans(data, (0, len(data)))
    with pytest.raises(ValueError, match="bytes where numbers were expected"):
        read_numbers(data, spans["a"])
    with pytest.raises(ValueError, match="numbers where bytes were expected"):
        byte_spans(data, spans["b"])


@given(st.data())
def test_cut_messages_are_errors_or_shorter(draw: st.DataObject) -> None:
    """A message that ends early never reads past its end."""
    whole = rlds_writer.example({"a": np.arange(300), "b": [b"x" * 40]})
    end = draw.draw(st.integers(1, len(whole) - 1))
    data = memoryview(whole[:end])
    with pytest.raises(ValueError, match=r"longer than its message|has no end"):
        feature_spans(data, (0, len(data)))


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01"])
def test_integers_without_an_end(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"has no end|too many bytes"):
        read_varints(data)


def test_an_unknown_wire_type() -> None:
    with pytest.raises(ValueError, match="wire type 3 at byte 1 is unknown"):
        feature_spans(memoryview(b"\x0b\x00"), (0, 2))


def test_the_same_numbers_as_the_package_tfrecord(tmp_path: Path) -> None:
    """An independent writer, in an environment that has it."""
    writer_module = pytest.importorskip("tfrecord", reason="the package tfrecord is not installed")
    from oatkit.data.formats.tfrecord import map_file, read_records

    writer = writer_module.TFRecordWriter(str(tmp_path / "d"))
    floats = np.random.default_rng(0).normal(size=12).astype(np.float32)
    writer.write({"a": (floats.tolist(), "float"), "b": ([-3, 2**40], "int"), "c": (b"x", "byte")})
    writer.close()
    (record,) = read_records(tmp_path / "d")
    data = map_file(tmp_path / "d")
    spans = feature_spans(data, record)
    np.testing.assert_array_equal(read_numbers(data, spans["a"]), floats)
    assert read_numbers(data, spans["b"]).tolist() == [-3, 2**40]
    assert [bytes(data[s:e]) for s, e in byte_spans(data, spans["c"])] == [b"x"]
