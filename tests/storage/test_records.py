"""Records come back from their JSON; other schemas and newer versions are refused by name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import oatkit.types
from oatkit.errors import ArtifactError
from oatkit.storage.record_upgrades import UPGRADES
from oatkit.storage.records import (
    read_or_begin,
    read_record,
    read_records,
    record_from_json,
    record_to_json,
    upgraded,
    write_record,
    write_records,
)
from oatkit.types import DatasetCheck, DemoRecord, Finding, PolicySweep

RECORDS = {
    found.schema: found
    for found in vars(oatkit.types).values()
    if dataclasses.is_dataclass(found) and hasattr(found, "schema")
}
CHECK = DatasetCheck("é.npz", "npz", 8, (Finding("constant", "x is constant", "drop it"),))


def begun(**settings: Any) -> PolicySweep:
    return PolicySweep("data", settings)


def test_every_record_has_a_schema_of_its_own_and_a_way_from_every_older_version() -> None:
    assert len(RECORDS) >= 12
    for schema, record in RECORDS.items():
        assert schema.startswith("oatkit/")
        assert sorted(UPGRADES.get(schema, {})) == list(range(1, record.version))
    assert set(UPGRADES) <= set(RECORDS)


def test_a_record_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "below/check.json"
    write_record(path, CHECK)
    assert read_record(path, DatasetCheck) == CHECK
    assert "é" in path.read_text("utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["check.json"]
    assert record_from_json(DatasetCheck, record_to_json(CHECK)) == CHECK


def test_a_list_of_records_comes_back(tmp_path: Path) -> None:
    write_records(tmp_path / "a.json", [CHECK, CHECK])
    assert read_records(tmp_path / "a.json", DatasetCheck) == (CHECK, CHECK)
    write_record(tmp_path / "b.json", CHECK)
    with pytest.raises(ArtifactError, match=r"b\.json is no readable .*it holds no list"):
        read_records(tmp_path / "b.json", DatasetCheck)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "oatkit/demo"}, r"a\.json holds oatkit/demo, expected oatkit/dataset-check"),
        (
            {"version": 9},
            r"a\.json holds oatkit/dataset-check in version 9, this oatkit reads versions up to "
            "1: update oatkit",
        ),
        ({"version": "1"}, "version is 1, expected a number"),
        ({"unknown": 1}, r"a\.json is no readable oatkit/dataset-check record \('unknown'\)"),
        ({"findings": None}, "is no readable oatkit/dataset-check record"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, change: Any, message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(record_to_json(CHECK) | change))
    with pytest.raises(ArtifactError, match=message):
        read_record(tmp_path / "a.json", DatasetCheck)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}"])
def test_what_is_no_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"a\.json .*oatkit/demo"):
        read_record(tmp_path / "a.json", DemoRecord)
    with pytest.raises(ArtifactError, match=r"none\.json is no readable oatkit/demo"):
        read_record(tmp_path / "none.json", DemoRecord)


def test_a_record_inside_a_record_is_checked_too() -> None:
    path = Path(__file__).parent / "records_v1/tokenizer-comparison.json"
    comparison = json.loads(path.read_text())
    comparison["kinds"][0]["measurement"]["version"] = 9
    with pytest.raises(ArtifactError, match="holds oatkit/tokenizer-measurement in version 9"):
        record_from_json(oatkit.types.TokenizerComparison, comparison)


def test_versions_are_climbed_one_by_one() -> None:
    steps = {1: lambda v: v | {"b": v["a"] + 1}, 2: lambda v: v | {"c": v["b"] + 1}}
    for version in (1, 2):
        value = {"schema": "s", "version": version, "a": 1, "b": 2}
        assert upgraded(value, "s", 3, "here", steps) == {
            **{"schema": "s", "version": 3, "a": 1},
            **{"b": 2, "c": 3},
        }


FILES = [
    pytest.param(path, id=f"{path.parent.name}/{path.stem}")
    for path in sorted(Path(__file__).parent.glob("records_v*/*.json"))
]
"""A file of every version of every record, made by the code of its time; they never change."""


def read_any(path: Path) -> tuple[Any, list[Any]]:
    """The class of the records in a file, and the records."""
    values = json.loads(path.read_text())
    is_list = isinstance(values, list)
    record_class = RECORDS[(values[0] if is_list else values)["schema"]]
    if is_list:
        return record_class, list(read_records(path, record_class))
    return record_class, [read_record(path, record_class)]


def test_there_is_a_file_of_every_version_of_every_record() -> None:
    have = {
        (f"oatkit/{path.stem}", int(path.parent.name.removeprefix("records_v")))
        for path in Path(__file__).parent.glob("records_v*/*.json")
    }
    assert have == {(s, v + 1) for s, record in RECORDS.items() for v in range(record.version)}


@pytest.mark.parametrize("path", FILES)
def test_records_of_every_version_still_open(path: Path, tmp_path: Path) -> None:
    record_class, (found, *_) = read_any(path)
    assert found.version == record_class.version
    write_record(tmp_path / "now.json", found)
    assert read_record(tmp_path / "now.json", record_class) == found


@pytest.mark.parametrize("path", FILES)
def test_the_json_of_a_version_does_not_change(path: Path) -> None:
    """Whoever changes it raises the version, so that an older oatkit refuses it by name."""
    record_class, found = read_any(path)
    if path.parent.name == f"records_v{record_class.version}":
        written = json.loads(json.dumps([record_to_json(record) for record in found]))
        values = json.loads(path.read_text())
        assert written == (values if isinstance(values, list) else [values])


def test_a_record_that_grows_goes_on_with_the_same_settings_only(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert read_or_begin(path, begun(seed=1)).rows == ()
    write_record(path, begun(seed=1, levels=(3, 2)))
    assert read_or_begin(path, begun(seed=1, levels=(3, 2))).settings == {
        **{"seed": 1, "levels": [3, 2]}
    }
    with pytest.raises(ArtifactError, match=r"another seed \(was 1, now 2\): use the same options"):
        read_or_begin(path, begun(seed=2, levels=(3, 2)))
    with pytest.raises(ArtifactError, match=r"made with another levels \(was \[3, 2\], now None\)"):
        read_or_begin(path, begun(seed=1))
