"""Checkpoints that are complete or absent: written aside, flushed to disk, then renamed.

checkpoints/step-00001000/model.safetensors      parameters and buffers
                          ema.safetensors        their moving average, if there is one
                          optimizer.safetensors  moments, named after the parameters
                          state.json             step and the config it belongs to
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from oatkit.errors import ArtifactError
from oatkit.storage.atomic_write import flush
from oatkit.storage.records import upgraded
from oatkit.train.shard import full_tensor, is_sharded, shard_like

WRITING = ".writing-"
SCHEMA, VERSION = "oatkit/checkpoint", 1
UNVERSIONED = {"schema": SCHEMA, "version": 1}
"""Values that the first checkpoints did not hold."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Folder that holds them.
        config: JSON that must be the same when a run continues.
        keep: Number of latest checkpoints that stay.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], keep: int = 2) -> None:
        self.folder = folder
        self._config = json.loads(json.dumps(config))
        self._keep = keep

    def latest(self) -> Path | None:
        """The folder of the latest checkpoint, None if there is none."""
        found = sorted(self.folder.glob("step-*"))
        return found[-1] if found else None

    def save(
        self,
        step: int,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        ema: Mapping[str, Tensor] | None,
        *,
        is_writer: bool = True,
    ) -> Path:
        """Write the state after `step` steps, then drop the oldest.

        Where weights are sharded all processes must call this, and one writes.
        """
        path = self.folder / f"step-{step:08d}"
        if path.exists():
            return path
        aside = self.folder / f"{WRITING}{path.name}"
        if is_writer:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)

        def write(name: str, tensors: Mapping[str, Tensor]) -> None:
            if is_writer:
                save_file(_plain(tensors), aside / f"{name}.safetensors")
            else:
                _give(tensors)

        write("model", module.state_dict())
        write("optimizer", optimizer_tensors(module, optimizer))
        if ema is not None:
            write("ema", ema)
        if not is_writer:
            return path
        state = {"schema": SCHEMA, "version": VERSION, "step": step, "config": self._config}
        (aside / "state.json").write_text(json.dumps(state, indent=2))
        for file in aside.iterdir():
            flush(file)
        flush(aside)
        aside.rename(path)
        flush(self.folder)
        for old in sorted(self.folder.glob("step-*"))[: -self._keep]:
            shutil.rmtree(old)
        return path

    def restore(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        ema: dict[str, Tensor] | None,
    ) -> int:
        """Load the latest checkpoint into the arguments; returns its step, 0 if there is none."""
        path = self.latest()
        if path is None:
            return 0
        try:
            state = {**UNVERSIONED, **json.loads((path / "state.json").read_text())}
            tensors = load_file(path / "model.safetensors")
            moments = load_file(path / "optimizer.safetensors")
            averages = load_file(path / "ema.safetensors") if ema is not None else {}
        except (OSError, ValueError, SafetensorError) as error:
            raise ArtifactError(f"the checkpoint {path} cannot be read ({error})") from error
        state = upgraded(state, SCHEMA, VERSION, str(path))
        different = sorted(
            key
            for key in {*state["config"], *self._config}
            if state["config"].get(key) != self._config.get(key)
        )
        if different:
            raise ArtifactError(
                f"{path} belongs to a run with another {', '.join(different)}: use the same "
                "options, another --out, or remove it"
            )
        load_tensors(module.state_dict(), tensors)
        load_optimizer_tensors(module, optimizer, moments)
        if ema is not None:
            load_tensors(ema, averages)
        return int(state["step"])


def load_latest(out: Path, module: nn.Module) -> None:
    """Load what training left in `out` into a module: the moving average, or else the weights."""
    path = Checkpoints(out / "checkpoints", {}).latest()
    assert path is not None
    average = path / "ema.safetensors"
    module.load_state_dict(load_file(average if average.exists() else path / "model.safetensors"))
    module.eval()


@torch.no_grad()
def load_tensors(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into those of the same names."""
    for name, target in targets.items():
        target.copy_(shard_like(tensors[name], target))


def optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as tensors named `<parameter>/<entry>`."""
    names: dict[Tensor, str] = {p: name for name, p in module.named_parameters()}
    return {
        f"{names[parameter]}/{what}": value
        for parameter, state in optimizer.state.items()
        for what, value in state.items()
    }


def load_optimizer_tensors(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """The inverse of `optimizer_tensors`.

    Where a tensor belongs is the optimizer's to say: a fused AdamW wants `step` on the device of
    its parameter, others want it on the CPU.
    """
    parameters = dict(module.named_parameters())
    stored = optimizer.state_dict()
    numbers: dict[Tensor, int] = {
        parameter: number
        for group, numbered in zip(optimizer.param_groups, stored["param_groups"], strict=True)
        for parameter, number in zip(group["params"], numbered["params"], strict=True)
    }
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, what = key.rsplit("/", 1)
        parameter = parameters[name]
        placed = value if what == "step" else shard_like(value, parameter)
        state.setdefault(numbers[parameter], {})[what] = placed
    optimizer.load_state_dict({**stored, "state": state})


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: full_tensor(tensor.detach()).cpu().contiguous().clone()
        for name, tensor in tensors.items()
    }


def _give(tensors: Mapping[str, Tensor]) -> None:
    """Let another process gather what is sharded."""
    for tensor in tensors.values():
        if is_sharded(tensor):
            full_tensor(tensor.detach())
