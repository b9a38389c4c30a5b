"""The command line that options stand for, so that a record can say what to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any


def command_line(command: str, options: Any, *, positional: str | None = None) -> str:
    """`oatkit COMMAND` with a flag for every option that is not the default.

    Args:
        command: Words of the command, such as "policy train".
        options: Dataclass that the command line would be parsed to.
        positional: Name of the field that is given without a flag.
    """
    words = ["oatkit", *command.split()]
    defaults = {field.name: _default(field) for field in fields(options)}
    if positional is not None:
        defaults[positional] = getattr(options, positional)  # so that it gets no flag
        words.append(str(defaults[positional]))
    return shlex.join([*words, *_flags(options, defaults)])


def _flags(options: Any, defaults: Mapping[str, Any]) -> Iterator[str]:
    for field in fields(options):
        value, default = getattr(options, field.name), defaults[field.name]
        if value == default:
            continue
        if is_dataclass(value):  # a group of flags that commands share
            yield from _flags(value, vars(default))
            continue
        flag = field.name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
            continue
        yield f"--{flag}"
        yield from map(str, value if isinstance(value, tuple) else (value,))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
