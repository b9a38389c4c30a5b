from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oatkit.data.formats.rlds_features import read_features
from oatkit.errors import DatasetError
from tests.data import rlds_writer
from tests.data.rlds_writer import CLASSES, image, tensor, text


def describe(folder: Path, described: dict[str, Any]) -> Path:
    rlds_writer.write_rlds(folder / "d/1.0.0", described, [], num_files=1)
    return folder / "d/1.0.0"


def test_columns_are_sorted_by_what_they_are(tmp_path: Path) -> None:
    label = {"pythonClassName": f"{CLASSES}.class_label_feature.ClassLabel"}
    sequence = {"pythonClassName": f"{CLASSES}.sequence_feature.Sequence"}
    folder = describe(
        tmp_path,
        {
            "action": {"arm": tensor(6), "gripper": tensor(), "packed": tensor(2, encoding="zlib")},
            "matrix": tensor(3, 4, dtype="float64"),
            "raw_image": tensor(8, 8, 3, dtype="uint8"),
            "unknown_size": tensor(-1),
            "label": label | {"classLabel": {"numClasses": "3"}},
            "words": sequence | {"sequence": {"feature": text(), "length": "-1"}},
            "note": text(),
            "also_text": tensor(dtype="string"),
            "observation": {
                "front": image(48, 64),
                "depth": image(48, 64, channels=1, dtype="uint16"),
                "any_size": image(-1, -1),
            },
        },
    )
    found = read_features(folder)
    assert {key: feature.shape for key, feature in found.numbers.items()} == {
        "action/arm": (6,),
        "action/gripper": (1,),
        "action/packed": (2,),
        "matrix": (3, 4),
        "label": (1,),
    }
    assert found.encodings == {"action/packed": "zlib"}
    assert found.images == {"observation/front": (48, 64), "observation/any_size": (None, None)}
    assert found.texts == ["note", "also_text"]


def test_a_dataset_that_is_none_of_episodes(tmp_path: Path) -> None:
    described = rlds_writer.members({"image": image(8, 8), "label": tensor()})
    (tmp_path / "features.json").write_text(json.dumps(described))
    with pytest.raises(DatasetError, match=r"no episodes of 'steps'.* features are image, label"):
        read_features(tmp_path)


def test_steps_without_numbers(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="describes no column of plain numbers in a step"):
        read_features(describe(tmp_path, {"note": text()}))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"featuresDict": 3}'])
def test_broken_files_are_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "features.json").write_text(content)
    with pytest.raises(DatasetError, match=r"features\.json"):
        read_features(tmp_path)
