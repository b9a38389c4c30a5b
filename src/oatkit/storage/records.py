"""JSON records: frozen dataclasses of `oatkit.types` with a `schema` and a `version`.

A record of an older version is brought up to date when it is read, by the functions of
`record_upgrades.py`; one of a newer version, or of another schema, is refused by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from oatkit.errors import ArtifactError
from oatkit.storage.atomic_write import atomic_write
from oatkit.storage.record_upgrades import UPGRADES, Upgrade

PathName = str | os.PathLike[str]
AnyRecord = TypeVar("AnyRecord")


class GrowingRecord(Protocol):
    """A record that is written again and again while a long job goes on."""

    @property
    def settings(self) -> dict[str, Any]:
        """JSON values that decide the result, and so must be the same when the job resumes."""

    @property
    def schema(self) -> str: ...


Growing = TypeVar("Growing", bound=GrowingRecord)


def read_record(path: PathName, record_class: type[AnyRecord]) -> AnyRecord:
    """The record in a file."""
    with _errors_name(path, record_class):
        values = json.loads(Path(path).read_text("utf-8"))
        return record_from_json(record_class, values, str(path))


def read_records(path: PathName, record_class: type[AnyRecord]) -> tuple[AnyRecord, ...]:
    """The records of a file that holds a list of them."""
    with _errors_name(path, record_class):
        values = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(values, list):
            raise TypeError("it holds no list")
        return tuple(record_from_json(record_class, value, str(path)) for value in values)


def write_record(path: PathName, record: Any) -> None:
    """Write a record to a file, completely or not at all."""
    _write(Path(path), record_to_json(record))


def write_records(path: PathName, records: Sequence[Any]) -> None:
    """Write a list of records to a file, completely or not at all."""
    _write(Path(path), [record_to_json(record) for record in records])


def read_or_begin(path: Path, begun: Growing) -> Growing:
    """The record at `path` if it has the settings of `begun`, an error if others, else `begun`."""
    if not path.exists():
        return begun
    found = read_record(path, type(begun))
    wanted: dict[str, Any] = json.loads(json.dumps(begun.settings))
    different = [
        f"{name} (was {found.settings.get(name)}, now {wanted.get(name)})"
        for name in sorted({*found.settings, *wanted})
        if found.settings.get(name) != wanted.get(name)
    ]
    if different:
        raise ArtifactError(
            f"{path} was made with another {', '.join(different)}: use the same options, another "
            "--out, or remove it"
        )
    return found


def record_to_json(record: Any) -> dict[str, Any]:
    """The JSON values of a record."""
    return asdict(record)


def record_from_json(
    record_class: type[AnyRecord], value: Any, where: str = "the record"
) -> AnyRecord:
    """The record of JSON values; the inverse of `record_to_json`.

    Args:
        record_class: A dataclass of `oatkit.types`.
        value: JSON values of the same or an older version.
        where: What an error calls the record, such as its path.
    """
    return _from_json(record_class, value, where)


def upgraded(
    value: Any,
    schema: str,
    version: int,
    where: str,
    upgrades: Mapping[int, Upgrade] | None = None,
) -> dict[str, Any]:
    """JSON values of a schema, brought up to a version; an error if that cannot be.

    Args:
        value: What a file holds.
        schema: The schema it must have.
        version: The version that is wanted, the newest there is.
        where: What an error calls it, such as its path.
        upgrades: Functions that lead on from older versions; those of `record_upgrades.py` by
            default.
    """
    if not isinstance(value, Mapping) or "schema" not in value or "version" not in value:
        raise ArtifactError(f"{where} has no schema and version, expected {schema}")
    if value["schema"] != schema:
        raise ArtifactError(f"{where} holds {value['schema']}, expected {schema}")
    if not isinstance(value["version"], int):
        raise ArtifactError(f"{where}: version is {value['version']}, expected a number")
    if value["version"] > version:
        raise ArtifactError(
            f"{where} holds {schema} in version {value['version']}, this oatkit reads versions up "
            f"to {version}: update oatkit"
        )
    newer, steps = dict(value), UPGRADES.get(schema, {}) if upgrades is None else upgrades
    for step in range(newer["version"], version):
        newer = {**steps[step](newer), "version": step + 1}
    return newer


def _from_json(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        made: Any = hint
        if hasattr(made, "schema"):
            value = upgraded(value, made.schema, made.version, where)
        hints = get_type_hints(made)
        return made(**{name: _from_json(hints[name], v, where) for name, v in value.items()})
    if get_origin(hint) is tuple:
        return tuple(_from_json(get_args(hint)[0], v, where) for v in value)
    if get_origin(hint) in (Union, UnionType) and value is not None:
        parts = [part for part in get_args(hint) if is_dataclass(part) or get_origin(part) is tuple]
        return _from_json(parts[0], value, where) if parts else value
    return value


def _write(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")


@contextmanager
def _errors_name(path: PathName, record_class: type) -> Iterator[None]:
    """Turn whatever a broken file raises into an error that names the file."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        schema = getattr(record_class, "schema", record_class.__name__)
        raise ArtifactError(f"{path} is no readable {schema} record ({error})") from error
