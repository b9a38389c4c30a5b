"""How options are read and shown: `--steps INT`, and a wrong value is answered with the right ones.

    registry = option_types()
    tyro.cli(Options, registry=registry)

tyro alone shows an option that may be left out as `{None}|INT`, and answers a wrong name with all
known ones in any order.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Union, get_args, get_origin

from tyro.conf import UseAppendAction
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from oatkit.errors import unknown_name

Option = PrimitiveConstructorSpec[Any]

NUMBERS: dict[type, str] = {int: "a whole number", float: "a number"}
"""Types of numbers, and what an option of one expects."""


def option_types() -> ConstructorRegistry:
    """The rules by which tyro reads the options of all commands."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def option(info: PrimitiveTypeInfo) -> Option | None:
        kind: Any = info.type
        origin, args = get_origin(kind), get_args(kind)
        if kind in NUMBERS:
            return _number(kind)
        if origin is Literal:
            return _choice(args)
        if origin in (Union, types.UnionType):
            parts = [made(part, info) for part in args if part is not type(None)]
            known = [part for part in parts if part is not None]
            return _any_of(known) if len(known) == len(parts) else None
        if origin is tuple and args[1:] == (...,) and UseAppendAction not in info.markers:
            one = made(args[0], info)
            return None if one is None else _several(one)
        return None

    def made(kind: Any, info: PrimitiveTypeInfo) -> Option | None:
        """How a part of a type is read; None where that is not one word."""
        found = registry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
        return found if isinstance(found, PrimitiveConstructorSpec) and found.nargs == 1 else None

    return registry


def _number(kind: type) -> Option:
    def read(words: Sequence[str]) -> Any:
        try:
            return kind(words[0])
        except ValueError:
            raise ValueError(f"{words[0]!r} is not {NUMBERS[kind]}") from None

    return _option(kind.__name__.upper(), read, lambda value: type(value) is kind)


def _choice(values: Sequence[Any]) -> Option:
    by_name = {str(value): value for value in values}

    def read(words: Sequence[str]) -> Any:
        if words[0] not in by_name:
            raise ValueError(unknown_name("value", words[0], by_name))
        return by_name[words[0]]

    names = [name for name, value in by_name.items() if value is not None]
    metavar = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
    return _option(metavar, read, lambda value: value in values)


def _any_of(options: Sequence[Option]) -> Option:
    """An option of one of several types; `None`, which is its default, need not be typed."""

    def read(words: Sequence[str]) -> Any:
        if list(words) == ["None"]:
            return None
        for option in options:
            try:
                return option.instance_from_str(list(words))
            except ValueError:
                if len(options) == 1:
                    raise
        raise ValueError(f"{words[0]!r} is not {metavar}")

    metavar = "|".join(option.metavar for option in options)

    def show(value: Any) -> list[str]:
        fitting = [option for option in options if option.is_instance(value)]
        return fitting[0].str_from_instance(value) if fitting else [str(value)]

    made = _option(
        metavar,
        read,
        lambda value: value is None or any(option.is_instance(value) for option in options),
    )
    return replace(made, str_from_instance=show)


def _several(option: Option) -> Option:
    """Any number of values of one type."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"[{option.metavar} [{option.metavar} ...]]",
        instance_from_str=lambda words: tuple(option.instance_from_str([word]) for word in words),
        is_instance=lambda value: isinstance(value, tuple) and all(map(option.is_instance, value)),
        str_from_instance=lambda value: [option.str_from_instance(one)[0] for one in value],
    )


def _option(
    metavar: str, read: Callable[[Sequence[str]], Any], is_instance: Callable[[Any], bool]
) -> Option:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=is_instance,
        str_from_instance=lambda value: [str(value)],
    )
