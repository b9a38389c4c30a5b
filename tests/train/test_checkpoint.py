"""Checkpoints: complete or absent, and only for the same run."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from oatkit.errors import ArtifactError
from oatkit.storage.tensor_file import write_tensors
from oatkit.train import checkpoint
from oatkit.train.checkpoint import Checkpoints, load_latest
from oatkit.train.trained_state import frozen_digest
from oatkit.train.weight_average import begin_average
from tests.train.regression import (
    CONFIG,
    SCRIPT,
    Regression,
    assert_equal,
    end,
    start,
    trained,
)


@pytest.mark.parametrize("steps", [12, 20])
def test_a_run_of_another_length_says_how_to_train_longer(tmp_path: Path, steps: int) -> None:
    trained(tmp_path)
    longer = replace(CONFIG, steps=steps, warmup_steps=steps // 5)
    with pytest.raises(ArtifactError) as error:
        trained(tmp_path, longer)
    assert str(error.value) == (
        f"{tmp_path} holds a run of another length, which decided its learning rate: to train it "
        f"longer, start from what it made, with --init {tmp_path} and another --out; or give the "
        "same --steps"
    )


def test_a_run_that_has_not_ended_is_ended_first(tmp_path: Path) -> None:
    trained(tmp_path)
    (tmp_path / "checkpoints/step-00000008").rename(tmp_path / "ended")
    with pytest.raises(ArtifactError, match="start, once it has ended, from what it made"):
        trained(tmp_path, replace(CONFIG, steps=20))


def test_a_run_of_constant_learning_rate_is_made_longer(tmp_path: Path) -> None:
    constant = replace(CONFIG, schedule="constant")
    trained(tmp_path / "in_two", constant)
    in_two = trained(tmp_path / "in_two", replace(constant, steps=12))
    assert_equal(in_two, trained(tmp_path / "at_once", replace(constant, steps=12)))


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
    """The process dies between the files of its third checkpoint, and trains while it writes."""
    killer = SCRIPT.replace(
        "config =",
        "import os, oatkit.train.checkpoint as c\n"
        "real, calls = c.write_tensors, []\n"
        "def deadly(*args):\n"
        "    calls.append(1)\n"
        "    return real(*args) if len(calls) < 8 else os.kill(os.getpid(), 9)\n"
        "c.write_tensors = deadly\n"
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


def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is of the step that is saved, though the weights change before it is written; the
    next checkpoint waits for it, and what was saved is there when it is asked for."""
    is_changed, order = threading.Event(), []

    def slow(tensors: dict[str, Tensor], path: Path) -> None:
        assert is_changed.wait(timeout=30)
        order.append(path.parent.name.removeprefix(".writing-"))
        write_tensors(tensors, path)

    monkeypatch.setattr(checkpoint, "write_tensors", slow)
    module = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    checkpoints = Checkpoints(tmp_path, {})
    saved = module.weight.detach().clone()
    first = checkpoints.save(1, module, optimizer, None)
    assert not first.exists()
    with torch.no_grad():
        module.weight += 1
    is_changed.set()
    assert checkpoints.latest() == first
    assert torch.equal(load_file(first / "model.safetensors")["weight"], saved)
    checkpoints.save(2, module, optimizer, None)
    checkpoints.save(3, module, optimizer, None)
    checkpoints.wait()
    assert order == [f"step-{step:08d}" for step in (1, 1, 2, 2, 3, 3)]


def test_an_error_in_the_writing_thread_is_raised_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    module = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    checkpoints = Checkpoints(tmp_path, {})
    monkeypatch.setattr(checkpoint, "write_tensors", full)
    checkpoints.save(1, module, optimizer, None)
    with pytest.raises(OSError, match="no space left"):
        checkpoints.save(2, module, optimizer, None)
    checkpoints.save(2, module, optimizer, None)
    with pytest.raises(OSError, match="no space left"), checkpoints.written():
        pass
    checkpoints.wait()
    with pytest.raises(OSError, match="no space left"):
        trained(tmp_path / "run")
    assert Checkpoints(tmp_path / "run/checkpoints", {}).latest() is None


def adapted(seed: int = 0, *, is_frozen: bool = True) -> nn.Sequential:
    """A module of which only the second layer and a buffer are trained."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 1), nn.BatchNorm1d(1))
    module[0].requires_grad_(not is_frozen)
    return module


def test_only_what_is_trained_is_stored_and_the_rest_comes_from_the_base(tmp_path: Path) -> None:
    """A LoRA run at 3B would write 12 GB of frozen weights with every checkpoint."""
    module = adapted()
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad])
    checkpoints = Checkpoints(tmp_path / "checkpoints", {}, frozen=frozen_digest(module))
    with torch.no_grad():
        module[1].weight += 1
        module[2].running_mean += 1
    path = checkpoints.save(1, module, optimizer, None)
    checkpoints.wait()
    assert not [name for name in load_file(path / "model.safetensors") if name.startswith("0.")]
    fresh = adapted()
    load_latest(tmp_path, fresh)
    assert_equal(fresh.state_dict(), module.state_dict())
    assert not fresh.training
    other = adapted(seed=1)
    refused = Checkpoints(tmp_path / "checkpoints", {}, frozen=frozen_digest(other))
    with pytest.raises(ArtifactError, match="was trained on other frozen weights: start from"):
        refused.restore(other, optimizer, None)
    with pytest.raises(ArtifactError, match=r"has no weights of 0\.bias: its run did not train"):
        load_latest(tmp_path, adapted(is_frozen=False))


def test_checkpoints_with_frozen_weights_and_their_average_still_open(tmp_path: Path) -> None:
    """Version 1 stored all of the state, in the average too."""
    module = adapted()
    path = tmp_path / "checkpoints/step-00000003"
    path.mkdir(parents=True)
    weights = {name: tensor + 1 for name, tensor in module.state_dict().items()}
    average = {name: tensor + 2 for name, tensor in module.state_dict().items()}
    for name, tensors in (("model", weights), ("ema", average), ("optimizer", {})):
        save_file(tensors, path / f"{name}.safetensors")
    state = {"schema": "oatkit/checkpoint", "version": 1, "step": 3, "config": {}}
    (path / "state.json").write_text(json.dumps(state))
    fresh = adapted()
    ema = begin_average(fresh)
    trained_part = [p for p in fresh.parameters() if p.requires_grad]
    checkpoints = Checkpoints(tmp_path / "checkpoints", {}, frozen=frozen_digest(fresh))
    assert checkpoints.restore(fresh, torch.optim.AdamW(trained_part), ema) == 3
    assert_equal(fresh.state_dict(), weights)
    assert_equal(ema, {name: average[name] for name in ema})
    load_latest(tmp_path, fresh)
    assert torch.equal(fresh[1].weight, average["1.weight"])
    assert torch.equal(fresh[2].running_mean, weights["2.running_mean"])


def test_versions_of_checkpoints(tmp_path: Path) -> None:
    """Those of before there were versions are restored, newer ones are refused by name."""
    job = Regression()
    optimizer = torch.optim.AdamW(job.module.parameters())
    checkpoints = Checkpoints(tmp_path, {"a": 1})
    path = checkpoints.save(3, job.module, optimizer, None) / "state.json"
    checkpoints.wait()
    state = json.loads(path.read_text())
    path.write_text(json.dumps({name: state[name] for name in ("step", "config")}))
    assert checkpoints.restore(job.module, optimizer, None) == 3
    path.write_text(json.dumps(state | {"version": 9}))
    with pytest.raises(ArtifactError, match="holds oatkit/checkpoint in version 9, this oatkit"):
        checkpoints.restore(job.module, optimizer, None)


def test_moments_of_what_is_frozen_now_are_refused(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    names = ("step", "exp_avg", "exp_avg_sq")
    moments = {f"weight/{name}": torch.zeros(() if name == "step" else (2, 2)) for name in names}
    module.weight.requires_grad_(False)
    frozen = torch.optim.AdamW([module.bias])
    checkpoint.load_optimizer_tensors(module, optimizer, moments)
    with pytest.raises(ArtifactError, match="trained weight, which is frozen now"):
        checkpoint.load_optimizer_tensors(module, frozen, moments)
