"""Sharded weights: who asks for them, what is refused, and what one process holds of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from oatkit.errors import TrainingError
from oatkit.train.shard import full_tensor, is_sharded, is_sharding_asked, shard, shard_like
from tests.train.regression import ROOT

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from oatkit.train.checkpoint import load_optimizer_tensors, optimizer_tensors
from oatkit.train.shard import full_tensor, is_sharded, shard, shard_like

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
before = {name: p.detach().clone() for name, p in model.named_parameters()}
inputs = torch.arange(8.0).view(2, 4)
expected = model(inputs)
shard(model, [model[0]], is_bfloat16=False)
for name, parameter in model.named_parameters():
    assert is_sharded(parameter)
    assert parameter.to_local().numel() < before[name].numel()
    assert torch.equal(full_tensor(parameter.detach()), before[name])
    again = shard_like(before[name], parameter)
    assert torch.equal(again.to_local(), parameter.to_local())
torch.testing.assert_close(model(inputs), expected)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
model(inputs).sum().backward()
optimizer.step()
fresh = optimizer.state[model[0].weight]["step"]
whole = {key: full_tensor(t).clone() for key, t in optimizer_tensors(model, optimizer).items()}
again = torch.optim.AdamW(model.parameters(), fused=True)
load_optimizer_tensors(model, again, whole)
restored = again.state[model[0].weight]
assert not is_sharded(restored["step"]) and not is_sharded(fresh)
assert torch.equal(restored["step"], fresh)
assert torch.equal(
    restored["exp_avg"].to_local(), optimizer.state[model[0].weight]["exp_avg"].to_local()
)
again.step()
dist.destroy_process_group()
"""


def test_the_launcher_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCELERATE_USE_FSDP", raising=False)
    assert not is_sharding_asked()
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "True")
    assert is_sharding_asked()


def test_weights_must_be_float32_or_frozen_bfloat16() -> None:
    with pytest.raises(TrainingError, match=r"sharded weights are torch\.float64, expected"):
        shard(nn.Linear(2, 2, dtype=torch.float64), [], is_bfloat16=False)
    message = "expected float32, or bfloat16 if they are frozen and --precision is bfloat16"
    half = nn.Linear(2, 2, dtype=torch.bfloat16)
    with pytest.raises(TrainingError, match=message):
        shard(half, [], is_bfloat16=True)  # trained
    with pytest.raises(TrainingError, match=message):
        shard(half.requires_grad_(False), [], is_bfloat16=False)


def test_a_tensor_that_is_not_sharded_is_itself() -> None:
    tensor = torch.ones(2)
    assert not is_sharded(tensor)
    assert full_tensor(tensor) is tensor
    assert torch.equal(shard_like(tensor, torch.zeros(2)), tensor)


def test_two_processes_hold_a_part_each(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    ran = subprocess.run(
        [*launch, "--nproc-per-node", "2", str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
