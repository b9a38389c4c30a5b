"""Checkpoints and policies of every family with random weights and real processors."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import write_scratch
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        name: write_scratch(name, folder / name, ScratchSize(), tiny.TASKS) for name in FAMILIES
    }


@pytest.fixture(scope="module")
def autoregressive(checkpoints: dict[str, Path], dataset: Dataset) -> dict[str, Policy]:
    """`vlm-ar` policies by family."""
    return {
        family: tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
        for family in checkpoints
    }


@pytest.fixture(scope="module")
def cotrained(checkpoints: dict[str, Path], dataset: Dataset) -> dict[str, Policy]:
    """`vlm-tc` policies by family."""
    return {
        family: tiny_vlm.make_policy("vlm-tc", checkpoints[family], "oat-pow2", dataset)
        for family in checkpoints
    }
