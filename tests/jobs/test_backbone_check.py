"""What is checked of a backbone, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.jobs.backbone_check import check_backbone
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_net import VlmNet
from tests.nn.pretended_devices import AsynchronousClock
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


def test_times_are_those_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a training step was timed until it was launched, not until it was done."""
    folder = str(write_scratch("smolvlm", tmp_path / "b", SIZE, tiny.TASKS))
    clock = AsynchronousClock(monkeypatch)
    monkeypatch.setattr(VlmNet, "encode", clock.timed(VlmNet.encode, 0.1))
    found = check_backbone(folder, image_size=32, expert_width=16)
    assert found.prefill_ms == pytest.approx(100)
    assert found.suffix_ms == pytest.approx(0)
    assert found.train_s == pytest.approx(0.1)
