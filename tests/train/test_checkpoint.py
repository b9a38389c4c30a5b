"""Checkpoints: complete or absent, and only for the same run."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from oatkit.errors import ArtifactError
from oatkit.train.checkpoint import Checkpoints
from tests.train.regression import (
    CONFIG,
    SCRIPT,
    Regression,
    assert_equal,
    end,
    start,
    trained,
)


def test_checkpoints_rotate_and_leftovers_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/.writing-step-00000003").mkdir(parents=True)
    (tmp_path / "checkpoints/.writing-step-00000003/model.safetensors").write_bytes(b"half")
    trained(tmp_path)
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000006", "step-00000008"]
    files = {p.name for p in (tmp_path / "checkpoints/step-00000008").iterdir()}
    assert files == {"model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json"}


def test_other_options_do_not_continue_a_run(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(ArtifactError, match="a run with another batch_size, seed: use the same"):
        trained(tmp_path, replace(CONFIG, batch_size=32, seed=4))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    trained(tmp_path)
    (tmp_path / "checkpoints/step-00000008/model.safetensors").write_bytes(b"short")
    with pytest.raises(ArtifactError, match="step-00000008 cannot be read"):
        trained(tmp_path)


def test_saving_twice_is_harmless(tmp_path: Path) -> None:
    job = Regression()
    optimizer = torch.optim.AdamW(job.module.parameters())
    checkpoints = Checkpoints(tmp_path, {"a": 1})
    assert checkpoints.save(3, job.module, optimizer, None) == checkpoints.latest()
    assert checkpoints.save(3, job.module, optimizer, None).name == "step-00000003"


def test_a_run_killed_while_it_writes_a_checkpoint(tmp_path: Path) -> None:
    """The process dies between the files of its third checkpoint."""
    killer = SCRIPT.replace(
        "config =",
        "import os, oatkit.train.checkpoint as c\n"
        "real, calls = c.optimizer_tensors, []\n"
        "def deadly(*args):\n"
        "    calls.append(1)\n"
        "    return real(*args) if len(calls) < 3 else os.kill(os.getpid(), 9)\n"
        "c.optimizer_tensors = deadly\n"
        "config =",
    )
    process = start(tmp_path / "killed", 8, killer)
    assert end(process) == -signal.SIGKILL
    left = sorted(p.name for p in (tmp_path / "killed/checkpoints").iterdir())
    assert left == [".writing-step-00000006", "step-00000002", "step-00000004"]
    for name in ("killed", "whole"):
        process = start(tmp_path / name, 8)
        assert end(process) == 0
    ends = [load_file(tmp_path / name / "end.safetensors") for name in ("whole", "killed")]
    assert_equal(*ends)


def test_versions_of_checkpoints(tmp_path: Path) -> None:
    """Those of before there were versions are restored, newer ones are refused by name."""
    job = Regression()
    optimizer = torch.optim.AdamW(job.module.parameters())
    checkpoints = Checkpoints(tmp_path, {"a": 1})
    path = checkpoints.save(3, job.module, optimizer, None) / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({name: state[name] for name in ("step", "config")}))
    assert checkpoints.restore(job.module, optimizer, None) == 3
    path.write_text(json.dumps(state | {"version": 9}))
    with pytest.raises(ArtifactError, match="holds oatkit/checkpoint in version 9, this oatkit"):
        checkpoints.restore(job.module, optimizer, None)
