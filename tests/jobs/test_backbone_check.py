"""What is checked of a backbone, from Python."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.jobs import backbone_check
from oatkit.jobs.backbone_check import StepSettings, check_backbone
from oatkit.policies import Policy
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.presets import vlm_preset
from tests.nn.pretended_devices import AsynchronousClock
from tests.policies import tiny

SMALL = StepSettings(batch_size=2, image_size=32, expert_width=16)
SIZE = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)


def test_a_frozen_backbone_trains_less_and_keeps_its_invariants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_scratch("qwen3-vl", tmp_path / "b", SIZE, tiny.TASKS))
    capsys.readouterr()
    whole = check_backbone(folder, settings=SMALL, device="cpu")
    frozen = check_backbone(folder, BackboneOptions(freeze_vision=True), SMALL, device="cpu")
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
    found = check_backbone(folder, settings=SMALL)
    assert found.prefill_ms == pytest.approx(100)
    assert found.suffix_ms == pytest.approx(0)
    assert found.train_s == pytest.approx(0.1)


@pytest.mark.parametrize("objective", ["vlm-ar", "vlm-tc"])
def test_the_step_that_is_measured_is_the_one_that_will_run(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch, cameras, frames, chunk, expert, autocast and the optimizer's update are those of the
    job, and the first step, which allocates the moments, is not timed: on a GPU other numbers would
    say that a job fits which does not."""
    folder = str(write_scratch("smolvlm", tmp_path / "b", SIZE, tiny.TASKS))
    steps, updates = [], []
    loss, adamw = Policy.loss, torch.optim.AdamW.step

    def spied_loss(self: Policy, observations: Any, tokens: Any, actions: Any, *rest: Any) -> Any:
        images = [tuple(image.shape[:2]) for image in observations.images]
        width = self.net.expert and self.net.expert.into.out_features
        autocast = torch.is_autocast_enabled("cpu")
        steps.append((self.kind, tuple(actions.shape), images, width, autocast))
        return loss(self, observations, tokens, actions, *rest)

    def spied_step(self: Any, *args: Any) -> Any:
        updates.append(self)
        return adamw(self, *args)

    monkeypatch.setattr(Policy, "loss", spied_loss)
    monkeypatch.setattr(torch.optim.AdamW, "step", spied_step)
    settings = StepSettings(
        batch_size=3,
        precision="bfloat16",
        expert_width=12,
        num_cameras=2,
        history=2,
        image_size=32,
        horizon=8,
    )
    found = check_backbone(folder, settings=settings, objective=objective, device="cpu")
    width = None if objective == "vlm-ar" else 12
    measured = (objective, (3, 8, 7), [(3, 2), (3, 2)], width, True)
    assert steps[-1 - backbone_check.REPEATS :] == [measured] * (1 + backbone_check.REPEATS)
    assert len(updates) == 1 + backbone_check.REPEATS
    assert found.step is not None
    assert (found.step.objective, found.step.batch_size) == (objective, 3)
    assert all(invariant.holds for invariant in found.invariants)


def test_what_is_not_given_is_that_of_the_paper_and_of_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU training computes in bfloat16 if nothing else is asked, so the check does too."""
    asked = []

    def bfloat16(*arguments: Any) -> str:
        asked.append(arguments)
        return "bfloat16"

    monkeypatch.setattr(backbone_check, "resolve_precision", bfloat16)
    policy: Any = SimpleNamespace(kind="vlm-tc", net="the network")
    found = backbone_check._resolved(StepSettings(), policy, torch.device("cuda"))
    assert asked == [(None, "the network", torch.device("cuda"))]
    assert found.precision == "bfloat16"
    assert found.expert_width == ExpertConfig().width == 1024
    assert found.batch_size == vlm_preset("paper", "vlm-tc").train.batch_size
    with pytest.raises(ValueError, match="batch_size is 0, expected at least 1"):
        StepSettings(batch_size=0)
