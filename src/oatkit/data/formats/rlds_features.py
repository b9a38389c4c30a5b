"""What `features.json` of an RLDS dataset says of the steps of an episode.

The file is a tree of TensorFlow Datasets' features. Names below `steps` are joined by slashes:
`observation/image` here is the feature `steps/observation/image` of a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.source import Feature
from oatkit.errors import DatasetError

FEATURES_PATH = "features.json"
STEPS = "steps"
MAX_AXES = 2
"""Columns of more axes are no vectors or matrices of numbers."""

Shape = tuple[int | None, ...]
"""Sizes of a value's axes; None where they differ from step to step."""


@dataclass
class StepFeatures:
    """The columns of a step by what they are.

    Attributes:
        numbers: Columns of numbers of a fixed shape.
        encodings: Columns among them that are stored as byte strings, `bytes` or `zlib`.
        images: Columns of encoded RGB images, with height and width where those are fixed.
        texts: Columns of text.
    """

    numbers: dict[str, Feature] = field(default_factory=dict)
    encodings: dict[str, str] = field(default_factory=dict)
    images: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


def read_features(folder: Path) -> StepFeatures:
    """The features of a step as `features.json` of a folder describes them."""
    path = folder / FEATURES_PATH
    with errors_naming(path):
        described = json.loads(path.read_text())
        members = described["featuresDict"]["features"]
        if "sequence" not in members.get(STEPS, {}):
            raise DatasetError(
                f"{path} describes no episodes of {STEPS!r}, as RLDS has them: its features are "
                f"{', '.join(sorted(members))}"
            )
        found = StepFeatures()
        for key, leaf in _leaves(members[STEPS]["sequence"]["feature"]):
            _sort_in(found, key, leaf)
        if not found.numbers.keys() - found.encodings.keys():
            raise DatasetError(f"{path} describes no column of plain numbers in a step")
    return found


def _leaves(described: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, member in described["featuresDict"]["features"].items():
        if "featuresDict" in member:
            yield from _leaves(member, f"{above}{name}/")
        else:
            yield above + name, member


def _sort_in(found: StepFeatures, key: str, leaf: dict[str, Any]) -> None:
    """Add one column; those of other kinds, such as sequences inside a step, are left out."""
    tensor, image = leaf.get("tensor"), leaf.get("image")
    if "text" in leaf or (tensor is not None and tensor["dtype"] in ("string", "object")):
        found.texts.append(key)
    elif "classLabel" in leaf:
        found.numbers[key] = Feature((1,), dtype="int64")
    elif image is not None:
        shape = _shape(image)
        if image.get("dtype", "uint8") == "uint8" and len(shape) == 3 and shape[2] == 3:
            found.images[key] = (shape[0], shape[1])
    elif tensor is not None:
        _sort_in_tensor(found, key, tensor)


def _sort_in_tensor(found: StepFeatures, key: str, tensor: dict[str, Any]) -> None:
    shape = _shape(tensor)
    sizes = tuple(size for size in shape if size)
    is_vector = len(sizes) == len(shape) <= MAX_AXES
    if is_vector and np.dtype(tensor["dtype"]).kind in "fiub":
        found.numbers[key] = Feature(sizes or (1,), dtype=tensor["dtype"])
        if tensor.get("encoding", "none") != "none":
            found.encodings[key] = tensor["encoding"]


def _shape(described: dict[str, Any]) -> Shape:
    """The sizes that a feature states; an unknown one is written as null, -1 or nothing."""
    sizes = described.get("shape", {}).get("dimensions", ())
    return tuple(int(size) if size is not None and int(size) > 0 else None for size in sizes)
