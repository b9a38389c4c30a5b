"""A plan counts what a step of the same policy really takes, and says what to change."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit.errors import ArtifactError
from oatkit.jobs import training_plan
from oatkit.jobs.backbone_check import make_trial_policy
from oatkit.jobs.training_plan import (
    GRADIENT,
    USABLE,
    PlanSettings,
    StepCount,
    _cheapest,
    _Counts,
    _in_words,
    _way,
    count_step,
    plan_training,
    smallest_gpu,
)
from oatkit.policies.generation.packing import pack, pack_shifted
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import load_backbone, write_scratch
from oatkit.types import PlannedWay, Schedule, TrainingPlan
from tests.nn.measured_memory import measured_peak
from tests.policies import tiny
from tests.train.two_ranks import ROOT
from tests.types.test_plan_records import WAY

SIZE = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)
SMALL = PlanSettings(
    gpus=2, batch=8, gpu="1:1", image_size=32, expert_width=16, horizon=8, precision="float32"
)
PARTS = ("weights", "gradients", "optimizer", "copies", "activations")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("backbone") / "smolvlm"
    return str(write_scratch("smolvlm", path, SIZE, tiny.TASKS))


@pytest.fixture(scope="module")
def plan(folder: str) -> TrainingPlan:
    return plan_training(folder, SMALL)


def way(plan: TrainingPlan, is_sharded: bool, saves_memory: bool, lora_rank: int) -> PlannedWay:
    key = (is_sharded, saves_memory, lora_rank)
    (found,) = (w for w in plan.ways if (w.is_sharded, w.saves_memory, w.lora_rank) == key)
    return found


def test_ways_differ_as_they_should(plan: TrainingPlan) -> None:
    assert len(plan.ways) == 8
    assert plan.asked in plan.ways
    whole, sharded = (way(plan, is_sharded, False, 0) for is_sharded in (False, True))
    assert whole == plan.asked
    assert whole.num_trained == plan.num_parameters + plan.num_more
    assert whole.weights == whole.gradients == 4 * whole.num_trained
    assert whole.optimizer == 8 * whole.num_trained
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(sharded, name) == pytest.approx(getattr(whole, name) / 2, abs=1)
    assert sharded.activations == whole.activations
    saving, adapted = way(plan, False, True, 0), way(plan, False, False, 16)
    assert saving.activations < whole.activations
    assert saving.step_flops > whole.step_flops
    assert adapted.num_trained < whole.num_trained
    assert adapted.weights > whole.weights  # the adapters
    for one in plan.ways:
        assert one.total == sum(getattr(one, name) for name in PARTS)
        assert one.fits == (one.total <= plan.usable_bytes)
        assert one.samples_per_s == pytest.approx(plan.batch_size / one.step_s)
        flops_per_s = one.step_flops / plan.num_gpus / one.step_s
        assert flops_per_s == pytest.approx(plan.utilization * plan.gpu_flops)


@pytest.mark.parametrize(
    ("objective", "family", "options", "precision"),
    [
        ("vlm-tc", "smolvlm", BackboneOptions(), "float32"),
        ("vlm-ar", "paligemma2", BackboneOptions(save_memory=True), "bfloat16"),
        ("vlm-tc", "qwen3-vl", BackboneOptions(lora_rank=2), "bfloat16"),
    ],
)
def test_what_is_planned_is_what_a_real_step_takes(
    objective: str, family: str, options: BackboneOptions, precision: str, tmp_path: Path
) -> None:
    """Operations as torch counts them, bytes as its allocator hands them out."""
    folder = str(write_scratch(family, tmp_path / "b", SIZE, tiny.TASKS))
    settings = replace(SMALL, precision=precision)  # type: ignore[arg-type]
    planned = _Counts(folder, settings, objective, 4).step(options, 4)
    policy = make_trial_policy(load_backbone(folder, options), options, SMALL.step, objective)
    counted: list[StepCount] = []

    def step() -> None:
        counted.append(count_step(policy, 4, settings.task_tokens, settings.precision))

    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),  # whose products torch counts on a CPU
    ):
        step()
    # fused attention computes scores a second time in the backward pass
    assert planned.flops == pytest.approx(counter.get_total_flops(), rel=0.06)
    assert planned.flops >= counter.get_total_flops()
    measured = measured_peak(step)
    assert planned.activations == pytest.approx(counted[-1].activations, rel=1e-3)
    assert planned.copies == counted[-1].copies
    trained = sum(p.numel() for p in policy.net.parameters() if p.requires_grad)
    held = planned.activations + planned.copies
    assert held / 1.1 <= measured <= 1.1 * (held + GRADIENT * trained)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "rank"), [("float32", 0), ("bfloat16", 0), ("bfloat16", 4)])
def test_a_sharded_step_takes_no_more_than_is_planned(
    precision: str, rank: int, tmp_path: Path
) -> None:
    """What FSDP gathers is planned as if all of it were there at once."""
    size = ScratchSize(width=64, num_layers=4, vision_width=32, vision_layers=2)
    folder = str(write_scratch("smolvlm", tmp_path / "b", size, tiny.TASKS))
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.jobs.sharded_step", folder, precision, str(rank)]
    ran = subprocess.run([*command, str(out)], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(out.read_text())
    assert 0.5 * found["planned"] < found["measured"] < 1.05 * found["planned"]


def test_masks_and_positions_stay_real(plan: TrainingPlan) -> None:
    """A plan must not leave tensors without numbers behind for those who train afterwards."""
    assert plan.ways
    for packed in (pack, pack_shifted):
        for schedule in (Schedule.tokenwise(16), Schedule.pow2(16)):
            weights = packed(schedule, torch.device("cpu")).weights
            assert weights.sum().item() == pytest.approx(1)


def test_a_config_alone_is_enough(folder: str, plan: TrainingPlan, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((Path(folder) / "config.json").read_text())
    found = plan_training(str(tmp_path), SMALL)
    assert found.num_parameters == plan.num_parameters
    assert found.asked.gradients == plan.asked.gradients
    assert found.asked.activations == pytest.approx(plan.asked.activations, rel=0.2)


def test_the_cheapest_change_is_named(folder: str) -> None:
    """GPUs are made just too small for one way after the other."""
    counts, loading = _Counts(folder, SMALL, "vlm-ar", 2), BackboneOptions()
    asked = _way(counts, loading, False, 1)
    parts = _way(counts, loading, False, 2)

    def cheapest(total: float) -> tuple[str | None, PlannedWay | None]:
        counts.settings = replace(SMALL, gpu=f"{total / USABLE / 1e9:.9f}:1")
        return _cheapest(counts, loading, counts.settings)

    change, changed = cheapest(0.99 * asked.total)
    assert change == "--accumulate 2"
    assert changed is not None
    assert changed.fits
    assert changed.accumulate == 2
    change, changed = cheapest(0.99 * parts.total)
    assert change is not None
    assert change != "--accumulate 2"
    assert changed is not None
    assert changed.total <= 0.99 * parts.total
    assert cheapest(1000) == (None, None)


def test_what_learns_the_same_is_tried_before_what_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def refuse(_: object, options: BackboneOptions, is_sharded: bool, __: int) -> None:
        tried.append((options.lora_rank, options.save_memory, is_sharded))

    monkeypatch.setattr(training_plan, "_least_parts", refuse)
    counts = _Counts("none", SMALL, "vlm-ar", 2)
    assert _cheapest(counts, BackboneOptions(), SMALL) == (None, None)
    assert tried == [(r, s, f) for r in (0, 16) for s in (False, True) for f in (False, True)]
    tried.clear()
    _cheapest(counts, BackboneOptions(save_memory=True), replace(SMALL, gpus=1))
    assert tried == [(0, True, False), (16, True, False)]


def test_flags_that_change_are_named() -> None:
    way = replace(WAY, is_sharded=True, accumulate=4)
    assert _in_words(way, BackboneOptions(), SMALL) == (
        "--lora-rank 16 --dtype bfloat16, which trains adapters alone and --save-memory, which "
        "computes layers twice and configs/accelerate/fsdp.yaml (--fsdp here) and --accumulate 4"
    )


def test_a_larger_gpu_is_found() -> None:
    gpu = smallest_gpu(int(30e9))
    assert gpu is not None
    assert gpu.name == "a100-40"
    assert smallest_gpu(10**15) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": 0}, "gpus is 0, expected at least 1"),
        ({"batch": 0}, "batch is 0, expected at least 1"),
        ({"accumulate": -1}, "accumulate is -1, expected at least 1"),
        ({"utilization": 0.0}, "utilization is 0.0, expected more than 0, at most 1"),
        ({"gpu": "a100"}, "unknown GPU 'a100'"),
        ({"history": 0}, "history is 0, expected at least 1"),
        ({"gpus": 1, "fsdp": True}, "one GPU has nobody to share with: leave --fsdp out"),
    ],
)
def test_wrong_settings_are_explained(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)  # type: ignore[arg-type]


def test_wrong_plans_are_explained(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch 8 is not divisible by 3 GPUs times 1 parts"):
        plan_training(folder, replace(SMALL, gpus=3))
    with pytest.raises(ValueError, match="leave --device-map out"):
        plan_training(folder, SMALL, BackboneOptions(device_map="auto"))
    missing = r"name a folder that holds its config\.json, or one of .*google/paligemma2-3b-pt-224"
    with pytest.raises(ArtifactError, match=missing):
        plan_training(str(tmp_path / "none"), SMALL)
