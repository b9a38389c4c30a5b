"""The stand-in of the ordinary tests has the names, fields and signatures of the LeRobot that is
installed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import pytest

from tests.lerobot_policy_oat import standin

lerobot = pytest.importorskip("lerobot", reason="LeRobot lives in an environment of its own")

MODULES = standin.modules(lerobot.__version__)
THINGS = [(module, name) for module, things in MODULES.items() for name in things]
OWN = {"__init__": ("PI0FastPytorch",)}
"""Methods that the stand-in writes only where dataclasses do not."""


def real(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found]


def methods(made: type) -> Iterator[str]:
    """Those that the stand-in itself defines and a plugin may call or extend."""
    versions = [base for base in made.__mro__ if base.__name__ == made.__name__]
    for name, value in (item for each in versions for item in vars(each).items()):
        function = inspect.isfunction(value) or isinstance(value, classmethod)
        if function and (not name.startswith("__") or made.__name__ in OWN.get(name, ())):
            yield name


def settings(made: type) -> dict[str, Any]:
    """Fields of a dataclass and what they are by default."""
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default
        for f in fields(made)
    }


@pytest.mark.parametrize(("module", "name"), THINGS, ids=[name for _, name in THINGS])
def test_it_has_the_real_ones_signature(module: str, name: str) -> None:
    thing, theirs = MODULES[module][name], real(module, name)
    if not inspect.isclass(thing):
        assert parameters(thing) == parameters(theirs)
        return
    for method in methods(thing):
        assert parameters(getattr(thing, method)) == parameters(getattr(theirs, method)), method
    if issubclass(thing, str):
        assert {e.name: e.value for e in thing} == {e.name: e.value for e in theirs}
    if is_dataclass(thing):
        there = settings(getattr(theirs, "__origin__", theirs))
        for setting, default in settings(thing).items():
            assert setting in there, setting
            if not callable(default) and setting not in ("to_transition", "to_output"):
                assert there[setting] == default, setting


def test_it_lacks_no_setting_of_pi0_fast() -> None:
    module = "lerobot.policies.pi0_fast.configuration_pi0_fast"
    theirs = settings(real(module, "PI0FastConfig"))
    assert settings(MODULES[module]["PI0FastConfig"]).keys() == theirs.keys()


@pytest.mark.parametrize("name", standin.CONSTANTS)
def test_it_has_the_real_constants(name: str) -> None:
    constants = importlib.import_module("lerobot.utils.constants")
    assert getattr(constants, name) == standin.CONSTANTS[name]


def test_the_network_is_called_like_the_real_one() -> None:
    module = importlib.import_module("lerobot.policies.pi0_fast.modeling_pi0_fast")
    for name in ("embed_language_tokens", "forward"):
        there = parameters(getattr(module.PI0FastPaliGemma, name))
        assert parameters(getattr(standin.pi0_fast.TinyPaliGemma, name)) == there
