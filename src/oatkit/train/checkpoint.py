"""Checkpoints that are complete or absent: written aside, flushed to disk, then renamed.

checkpoints/step-00001000/model.safetensors      trained parameters, and buffers
                          ema.safetensors        moving average of the parameters, if there is one
                          optimizer.safetensors  moments, named after the parameters
                          state.json             step, the config it belongs to, and a digest of
                                                 the frozen parameters, which are not stored

Tensors are copied to memory between two steps and written by a thread while training goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from oatkit.errors import ArtifactError
from oatkit.storage.atomic_write import flush
from oatkit.storage.record_upgrades import Upgrade
from oatkit.storage.records import upgraded
from oatkit.storage.tensor_file import write_tensors
from oatkit.train.shard import full_tensor, is_sharded, shard_like
from oatkit.train.train_config import decided_until
from oatkit.train.trained_state import trained_parameters, trained_tensors

WRITING = ".writing-"
SCHEMA, VERSION = "oatkit/checkpoint", 2
UNVERSIONED = {"schema": SCHEMA, "version": 1}
"""Values that the first checkpoints did not hold."""
LENGTH = frozenset({"steps", "warmup_steps"})
"""Settings that change with the number of steps of a run."""
UPGRADES: dict[int, Upgrade] = {1: lambda state: state | {"frozen": None}}
"""Version 1 held the frozen parameters themselves, and so no digest of them."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Folder that holds them.
        config: JSON that must be the same when a run continues.
        keep: Number of latest checkpoints that stay.
        frozen: Digest of the parameters that are not trained, and so not stored.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        keep: int = 2,
        frozen: str | None = None,
    ) -> None:
        self.folder = folder
        self._config = json.loads(json.dumps(config))
        self._keep = keep
        self._frozen = frozen
        self._writing: Future[None] | None = None

    def latest(self) -> Path | None:
        """The folder of the latest checkpoint, None if there is none."""
        if self._writing is not None:
            futures.wait([self._writing])
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
        """Copy the state after `step` steps, and begin to write it and to drop the oldest.

        It is on the disk after the next `save` or `wait`, which raise what went wrong. Where
        weights are sharded all processes must call this, and one writes.
        """
        self.wait()
        path = self.folder / f"step-{step:08d}"
        if path.exists():
            return path
        files = {
            "model": trained_tensors(module),
            "optimizer": optimizer_tensors(module, optimizer),
        }
        if ema is not None:
            files["ema"] = dict(ema)
        if not is_writer:
            for tensors in files.values():
                _give(tensors)
            return path
        copies = {f"{name}.safetensors": _copied(tensors) for name, tensors in files.items()}
        thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing = thread.submit(self._write, step, path, copies)
        thread.shutdown(wait=False)
        return path

    def wait(self) -> None:
        """Wait until the last checkpoint is on the disk; raises what went wrong with it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    @contextmanager
    def written(self) -> Iterator[None]:
        """Wait at the end of the block, however it ends, until the last checkpoint is written."""
        try:
            yield
        finally:
            self.wait()

    def _write(self, step: int, path: Path, files: Mapping[str, dict[str, Tensor]]) -> None:
        aside = self.folder / f"{WRITING}{path.name}"
        for killed in self.folder.glob(f"{WRITING}*"):  # what a process left that was killed
            shutil.rmtree(killed, ignore_errors=True)
        aside.mkdir(parents=True)
        for name, tensors in files.items():
            write_tensors(tensors, aside / name)
        state = {"schema": SCHEMA, "version": VERSION, "step": step, "config": self._config}
        (aside / "state.json").write_text(json.dumps(state | {"frozen": self._frozen}, indent=2))
        for file in aside.iterdir():
            flush(file)
        flush(aside)
        aside.rename(path)
        flush(self.folder)
        for old in sorted(self.folder.glob("step-*"))[: -self._keep]:
            shutil.rmtree(old)

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
        state = upgraded(state, SCHEMA, VERSION, str(path), UPGRADES)
        self._require_same(path, state["config"], state["step"])
        if state["frozen"] not in (None, self._frozen):
            raise ArtifactError(
                f"{path} was trained on other frozen weights: start from the same backbone or "
                "policy, use another --out, or remove it"
            )
        _load_trained(module, tensors, path)
        load_optimizer_tensors(module, optimizer, moments)
        if ema is not None:
            load_tensors(ema, averages)
        return int(state["step"])

    def _require_same(self, path: Path, config: Mapping[str, Any], step: int) -> None:
        """Refuse a checkpoint whose first steps other settings decided."""
        before, now = (decided_until(one, step) for one in (config, self._config))
        different = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
        if not different:
            return
        if {*different} <= LENGTH:
            rest = "" if step == before.get("steps", step) else ", once it has ended,"
            raise ArtifactError(
                f"{self.folder.parent} holds a run of another length, which decided its learning "
                f"rate: to train it longer, start{rest} from what it made, with "
                f"--init {self.folder.parent} and another --out; or give the same --steps"
            )
        raise ArtifactError(
            f"{path} belongs to a run with another {', '.join(different)}: use the same options, "
            "another --out, or remove it"
        )


def load_latest(out: Path, module: nn.Module) -> None:
    """Load what training left in `out` into a module: the moving average, or else the weights."""
    path = Checkpoints(out / "checkpoints", {}).latest()
    assert path is not None
    _load_trained(module, load_file(path / "model.safetensors"), path)
    average = path / "ema.safetensors"
    if average.exists():
        load_tensors(trained_parameters(module), load_file(average))
    module.eval()


def _load_trained(module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load what a checkpoint holds; the first ones held frozen parameters too."""
    missing = sorted(trained_tensors(module).keys() - tensors.keys())
    if missing:
        raise ArtifactError(f"{path} has no weights of {missing[0]}: its run did not train them")
    state = module.state_dict()
    load_tensors({name: state[name] for name in tensors if name in state}, tensors)


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
        if parameter not in numbers:
            raise ArtifactError(
                f"the checkpoint trained {name}, which is frozen now: use the same options and "
                "version, or another --out"
            )
        placed = value if what == "step" else shard_like(value, parameter)
        state.setdefault(numbers[parameter], {})[what] = placed
    optimizer.load_state_dict({**stored, "state": state})


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies in memory, which the next step does not change."""
    return {
        name: full_tensor(tensor.detach()).to("cpu", copy=True).contiguous()
        for name, tensor in tensors.items()
    }


def _give(tensors: Mapping[str, Tensor]) -> None:
    """Let another process gather what is sharded."""
    for tensor in tensors.values():
        if is_sharded(tensor):
            full_tensor(tensor.detach())
