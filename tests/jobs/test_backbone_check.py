"""What is checked of a backbone, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.jobs.backbone_check import check_backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from tests.policies import tiny

SIZE = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)


def test_a_frozen_backbone_trains_less_and_keeps_its_invariants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_scratch("qwen3-vl", tmp_path / "b", SIZE, tiny.TASKS))
    capsys.readouterr()
    small = {"image_size": 32, "expert_width": 16}
    whole = check_backbone(folder, **small)  # type: ignore[arg-type]
    frozen = check_backbone(folder, BackboneOptions(freeze_vision=True), **small)  # type: ignore[arg-type]
    assert frozen.num_parameters == whole.num_parameters
    assert frozen.num_trained < whole.num_trained
    assert all(invariant.holds for invariant in (*whole.invariants, *frozen.invariants))
    assert (whole.family, whole.checkpoint) == ("qwen3-vl", folder)
    assert capsys.readouterr().out == ""
