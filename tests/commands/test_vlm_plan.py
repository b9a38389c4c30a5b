"""`oatkit vlm plan`: what is counted is printed, as a table or as JSON, and said in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit import cli
from oatkit.commands.vlm_plan import render_plan
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.storage.records import record_from_json
from oatkit.types import TrainingPlan
from tests.policies import tiny

SIZE = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("backbone") / "b"
    return str(write_scratch("smolvlm", path, SIZE, tiny.TASKS))


def plan(folder: str, *flags: str) -> int:
    small = ("--image-size", "32", "--horizon", "8", "--batch", "4", "--policy", "vlm-ar")
    return cli.main(["vlm", "plan", "--backbone", folder, *small, *flags])


def test_a_plan_is_printed_as_json_and_rendered(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(folder, "--gpus", "2", "--gpu", "rtx4090", "--json") == 0
    found = record_from_json(TrainingPlan, json.loads(capsys.readouterr().out), "stdout")
    assert (found.num_gpus, found.gpu, found.batch_size) == (2, "rtx4090", 4)
    assert len(found.ways) == 8
    text = " ".join(render_plan(found).plain.split())
    assert "2 x rtx4090, 4 samples a step, computed in bfloat16; GB on each GPU, TFLOP of" in text
    assert "> DDP" in text
    assert "FSDP, LoRA 16, checkpointing" in text
    assert "samples/s (" in text
    assert "it fits:" in text
    asked = replace(found.asked, fits=False, total=int(90e9))
    fitting = replace(found.asked, accumulate=2, total=int(9e9))
    broken = replace(found, asked=asked, change="--accumulate 2", changed=fitting)
    text = " ".join(render_plan(broken).plain.split())
    assert "it does not fit: 90.0 GB, and rtx4090 leaves 22 GB to training" in text
    assert "the cheapest change that makes it fit (9.0 GB): --accumulate 2" in text
    hopeless = replace(broken, changed=None, ways=(replace(asked, total=int(60e9)),))
    assert "no flag makes it fit, DDP takes least: try --gpu a100-80" in render_plan(hopeless).plain


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--gpu", "a100"), "unknown GPU 'a100'"),
        (("--gpus", "3"), "batch 4 is not divisible by 3 GPUs times 1 parts"),
        (("--gpus", "1", "--fsdp"), "one GPU has nobody to share with"),
        (("--utilization", "2"), "utilization is 2.0, expected more than 0, at most 1"),
        (("--lora-rank", "-1"), "--lora-rank is -1, expected 0 or more"),
    ],
)
def test_bad_input_is_one_sentence(
    flags: tuple[str, ...], message: str, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(folder, *flags) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_backbone_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(str(tmp_path / "none"), "--gpus", "1") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "name a folder that holds its config.json, or one of" in error
