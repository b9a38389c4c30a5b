"""The precision of a training: as asked, the launcher's, or what suits module and device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from oatkit.errors import TrainingError
from oatkit.train import loop
from oatkit.train.loop import TrainingRun
from oatkit.train.precision import resolve_precision, tensor_cores, with_precision
from tests.train.regression import CONFIG, Regression, assert_equal, trained

CPU = torch.device("cpu")


class Large(nn.Linear):
    prefers_bfloat16 = True


@pytest.mark.parametrize(
    ("asked", "launched", "module", "device", "found"),
    [
        (None, None, nn.Linear, "cpu", "float32"),
        (None, None, nn.Linear, "cuda", "float32"),
        (None, None, Large, "cpu", "float32"),
        (None, None, Large, "cuda", "bfloat16"),
        (None, "no", Large, "cuda", "bfloat16"),
        (None, "no", nn.Linear, "cuda", "float32"),
        (None, "bf16", nn.Linear, "cpu", "bfloat16"),
        (None, "bf16", nn.Linear, "cuda", "bfloat16"),
        ("float32", None, Large, "cuda", "float32"),
        ("bfloat16", "no", nn.Linear, "cpu", "bfloat16"),
        ("bfloat16", "bf16", nn.Linear, "cuda", "bfloat16"),
    ],
)
def test_what_decides_the_precision(
    asked: Any,
    launched: str | None,
    module: type[nn.Linear],
    device: str,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    if launched is not None:
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert resolve_precision(asked, module(1, 1), torch.device(device)) == found


def test_what_is_asked_for_wins_over_the_launcher_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.warns(UserWarning, match="computing in float32, as asked, not in the launcher's"):
        assert resolve_precision("float32", nn.Linear(1, 1), CPU) == "float32"


@pytest.mark.parametrize("launched", ["fp16", "fp8"])
def test_other_formats_of_a_launcher_are_refused(
    launched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    with pytest.raises(TrainingError, match=f"asks for {launched}, .*--mixed_precision bf16 or no"):
        resolve_precision(None, nn.Linear(1, 1), CPU)


def test_the_launchers_bfloat16_is_what_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`configs/accelerate/ddp.yaml` asks for bf16: without this eight GPUs would compute in
    float32, which an explicit "no" told them to."""
    asked = trained(tmp_path / "asked", replace(CONFIG, precision="bfloat16"))
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    run = TrainingRun(Regression(), CONFIG, tmp_path / "run", {})
    assert run.accelerator.mixed_precision == "bf16"
    assert_equal(trained(tmp_path / "launched"), asked)
    assert_equal(trained(tmp_path / "asked"), asked)  # the checkpoint is of the same run


@pytest.mark.parametrize(
    ("launched", "prefers", "is_bfloat16"),
    [("bf16", True, True), ("bf16", False, False), ("no", True, False)],
)
def test_sharded_weights_are_gathered_in_the_precision(
    launched: str,
    prefers: bool,
    is_bfloat16: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FSDP on eight GPUs gathers in what the launcher asks for, if all layers take it."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(loop, "is_sharding_asked", lambda: True)
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 2)
    found: list[bool] = []

    def spy(*_: Any, is_bfloat16: bool) -> None:
        found.append(is_bfloat16)
        raise InterruptedError

    monkeypatch.setattr(loop, "shard", spy)
    job = Regression()
    job.module.blocks = []  # type: ignore[assignment]
    job.module.prefers_bfloat16 = prefers  # type: ignore[assignment]
    with pytest.raises(InterruptedError):
        TrainingRun(job, CONFIG, tmp_path, {})
    assert found == [is_bfloat16]


def test_a_checkpoint_that_names_float32_goes_on_without_a_name(tmp_path: Path) -> None:
    """All checkpoints named a precision before it could be left to the launcher."""
    before = trained(tmp_path, replace(CONFIG, precision="float32"))
    assert_equal(trained(tmp_path), before)


def test_tensor_cores_multiply_float32_on_cuda_alone_and_while_training() -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    with tensor_cores(torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == "highest"
    with tensor_cores(torch.device("cuda:1")):
        assert torch.get_float32_matmul_precision() == "high"
    # what is calibrated or measured after a training has all digits
    assert torch.get_float32_matmul_precision() == "highest"


def test_vision_language_networks_prefer_bfloat16() -> None:
    from oatkit.policies.vlm.vlm_net import VlmNet

    assert VlmNet.prefers_bfloat16


def test_a_config_names_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An artifact would otherwise say None, or float32, of what eight GPUs computed in bfloat16."""
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert with_precision(CONFIG, Large(1, 1), torch.device("cuda")).precision == "bfloat16"
    assert with_precision(CONFIG, None, torch.device("cuda")).precision == "float32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    found = with_precision(CONFIG, None, CPU)
    assert found == replace(CONFIG, precision="bfloat16")
