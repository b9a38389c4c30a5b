"""Checkpoints of every family with random weights, real tokenizers and real image processors."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import write_scratch
from tests.policies import tiny


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        name: write_scratch(name, folder / name, ScratchSize(), tiny.TASKS) for name in FAMILIES
    }
