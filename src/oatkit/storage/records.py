"""Result records from their JSON."""

from __future__ import annotations

from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def record_from_json(kind: type[Record], value: Any) -> Record:
    """A result record from its JSON: the inverse of `json.dumps(asdict(record))`."""
    return _from_json(kind, value)


def _from_json(hint: Any, value: Any) -> Any:
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _from_json(hints[name], v) for name, v in value.items()})  # type: ignore[operator]
    if get_origin(hint) is tuple:
        return tuple(_from_json(get_args(hint)[0], v) for v in value)
    if get_origin(hint) is UnionType and value is not None:
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return _from_json(inner, value)
    return value
