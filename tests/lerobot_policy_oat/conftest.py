"""The plugin on LeRobot where it is installed, else on the stand-in."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

import pytest

from tests.lerobot_policy_oat import standin

HAS_LEROBOT = importlib.util.find_spec("lerobot") is not None


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[ModuleType]:
    with nullcontext() if HAS_LEROBOT else standin.installed():
        yield importlib.import_module("lerobot_policy_oat")
