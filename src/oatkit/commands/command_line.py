"""The command line that options stand for, so that a record can say what to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
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
    if positional is not None:
        words.append(str(getattr(options, positional)))
    return shlex.join([*words, *_flags(options, positional)])


def _flags(options: Any, positional: str | None = None) -> Iterator[str]:
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name == positional or value == _default(field):
            continue
        if is_dataclass(value):  # a group of flags that commands share
            yield from _flags(value)
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
