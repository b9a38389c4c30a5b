"""Every policy acts as the protocol says, argument by argument."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from oatkit.policies import ActingPolicy, Policy

METHODS = sorted(
    name
    for name, value in vars(ActingPolicy).items()
    if inspect.isfunction(value) and not name.startswith("_")
)


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_declared_arguments(name: str) -> None:
    declared = inspect.signature(getattr(ActingPolicy, name)).parameters
    found = inspect.signature(getattr(Policy, name)).parameters
    assert list(found) == list(declared)
    defaults: dict[str, Any] = {key: p.default for key, p in declared.items()}
    assert {key: p.default for key, p in found.items()} == defaults


def test_it_reads_and_predicts() -> None:
    assert METHODS == ["predict_action_chunk", "read"]
