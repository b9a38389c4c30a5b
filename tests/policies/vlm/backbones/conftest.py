"""A backbone of every family with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.policies.vlm.backbones.backbone import Backbone
from tests.policies.vlm.backbones.transformers_reference import load


@pytest.fixture(scope="session")
def backbones(checkpoints: dict[str, Path]) -> dict[str, Backbone]:
    return {name: load(path) for name, path in checkpoints.items()}
