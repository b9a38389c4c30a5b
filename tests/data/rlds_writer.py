"""Writes RLDS datasets by the format's own rules: protocol buffers and checksums, bit by bit."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = NDArray[np.float32] | NDArray[np.int64] | Sequence[bytes]
CLASSES = "tensorflow_datasets.core.features"


def varint(value: int) -> bytes:
    octets = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def feature(value: Value, *, is_packed: bool = True) -> bytes:
    if not isinstance(value, np.ndarray):
        return delimited(1, b"".join(delimited(1, each) for each in value))
    if value.dtype.kind == "f":
        parts = [struct.pack("<f", number) for number in value.ravel()]
        field, wire_type = 2, 5
    else:
        parts = [varint(int(number)) for number in value.ravel()]
        field, wire_type = 3, 0
    if is_packed:
        return delimited(field, delimited(1, b"".join(parts)))
    return delimited(field, b"".join(varint(1 << 3 | wire_type) + part for part in parts))


def example(values: Mapping[str, Value], *, is_packed: bool = True) -> bytes:
    entries = [
        delimited(1, delimited(1, name.encode()) + delimited(2, feature(v, is_packed=is_packed)))
        for name, v in values.items()
    ]
    return delimited(1, b"".join(entries))


def crc32c(data: bytes) -> int:
    """CRC-32C one bit at a time."""
    checksum = 0xFFFFFFFF
    for octet in data:
        checksum ^= octet
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def masked(checksum: int) -> bytes:
    turned = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (turned + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(records: Sequence[bytes]) -> bytes:
    lengths = [struct.pack("<Q", len(record)) for record in records]
    return b"".join(
        length + masked(crc32c(length)) + record + masked(crc32c(record))
        for length, record in zip(lengths, records, strict=True)
    )


def tensor(*shape: int, dtype: str = "float32", encoding: str = "none") -> dict[str, Any]:
    dimensions = {"dimensions": [str(size) for size in shape]} if shape else {}
    inner = {"shape": dimensions, "dtype": dtype, "encoding": encoding}
    return {"pythonClassName": f"{CLASSES}.tensor_feature.Tensor", "tensor": inner}


def image(height: int, width: int, *, channels: int = 3, dtype: str = "uint8") -> dict[str, Any]:
    dimensions = [str(size) for size in (height, width, channels)]
    inner = {"shape": {"dimensions": dimensions}, "dtype": dtype, "encodingFormat": "png"}
    return {"pythonClassName": f"{CLASSES}.image_feature.Image", "image": inner}


def text() -> dict[str, Any]:
    return {"pythonClassName": f"{CLASSES}.text_feature.Text", "text": {}}


def members(described: Mapping[str, Any]) -> dict[str, Any]:
    """A dict of features; nested dicts of Python become nested dicts of features."""
    inner = {
        name: value if "pythonClassName" in value else members(value)
        for name, value in described.items()
    }
    name = f"{CLASSES}.features_dict.FeaturesDict"
    return {"pythonClassName": name, "featuresDict": {"features": inner}}


def write_rlds(
    folder: Path,
    described: Mapping[str, Any],
    episodes: Sequence[Mapping[str, Value]],
    *,
    num_files: int = 2,
    is_packed: bool = True,
) -> Path:
    """A version folder of one split.

    Args:
        folder: Folder to write, whose parent is named like the dataset.
        described: Features of a step.
        episodes: Values of all steps of each episode, by the name of the feature.
        num_files: Number of TFRecord files.
        is_packed: Whether numbers lie side by side or each behind a tag of its own.
    """
    folder.mkdir(parents=True)
    steps = {
        "pythonClassName": f"{CLASSES}.dataset_feature.Dataset",
        "sequence": {"feature": members(described), "length": "-1"},
    }
    metadata = {"file_path": text()}
    described_all = members({"steps": steps, "episode_metadata": metadata})
    (folder / "features.json").write_text(json.dumps(described_all))
    records = [
        example(
            {f"steps/{key}": value for key, value in episode.items()}
            | {"episode_metadata/file_path": [f"{number}.npy".encode()]},
            is_packed=is_packed,
        )
        for number, episode in enumerate(episodes)
    ]
    groups = [list(part) for part in np.array_split(np.arange(len(records)), num_files)]
    name = folder.parent.name
    for number, group in enumerate(groups):
        path = folder / f"{name}-train.tfrecord-{number:05d}-of-{num_files:05d}"
        path.write_bytes(tfrecord([records[i] for i in group]))
    counts = [str(len(group)) for group in groups]
    info = {"name": name, "splits": [{"name": "train", "shardLengths": counts}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder
