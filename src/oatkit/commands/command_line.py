"""The command line that options stand for, so that a record can say what to type, and an error what
was typed."""

from __future__ import annotations

import re
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
        defaults[positional] = value = getattr(options, positional)  # so that it gets no flag
        words += [] if value is None else [str(value)]
    return shlex.join([*words, *_flags(options, defaults)])


def with_flags(message: str, options: type[Any]) -> str:
    """A message in which the options of a command are called as they are typed.

        batch_size is 0, expected at least 1                --batch-size is 0, expected at least 1
        name it with --state-key (state_key=)               name it with --state-key

    A name of one word may be any word of a sentence: "steps is 0" and "budget 9" at the beginning
    are meant, and "another minutes (was 3, now 5)".

    Args:
        message: Message for callers from Python.
        options: Dataclass that the command line is parsed to.
    """
    for name in sorted(_names(options), key=len, reverse=True):
        flag = f"--{name.replace('_', '-')}"
        message = re.sub(rf"{flag} \({name}(=\w*)?\)", flag, message)
        if "_" in name:
            message = re.sub(rf"(?<![\w\-/.'\"]){name}(?![\w=/.'\"])", flag, message)
        else:
            message = re.sub(rf"^{name}(?= (is |are |\d|'))", flag, message)
            message = re.sub(rf"(?<=another ){name}(?= \(was )", flag, message)
    return message


def _names(options: type[Any]) -> Iterator[str]:
    for field in fields(options):
        default = _default(field)
        if is_dataclass(default):
            yield from _names(type(default))
        else:
            yield field.name


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
