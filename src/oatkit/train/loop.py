"""The training loop: the same for every tokenizer and policy, on one process or many.

What a step does follows from the seed, the step number and the state alone: which samples it has,
which random numbers they get, what the learning rate is. So a run killed at any moment and started
again ends where an uninterrupted one would, and `accelerate launch` on several processes sees the
same samples as one process. On a CPU the end is the same bit for bit; on CUDA some of torch's
kernels add up in another order each time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oatkit.errors import TrainingError
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.optimizers import OPTIMIZERS
from oatkit.train.parameter_groups import drop_early_gradients, make_optimizer, set_learning_rates
from oatkit.train.precision import prefers_bfloat16, tensor_cores, with_precision
from oatkit.train.prefetch import read_ahead
from oatkit.train.shard import (
    average_gradients,
    full_tensor,
    gather_in,
    is_sharding_asked,
    reshard,
    shard,
)
from oatkit.train.stop_signals import StopRequest, end_stopped
from oatkit.train.train_config import TrainConfig
from oatkit.train.trained_state import frozen_digest
from oatkit.train.training_job import TrainingJob
from oatkit.train.training_log import StepOutcome, TrainingLog, require_trackers
from oatkit.train.weight_average import begin_average, move_average, use_average

if TYPE_CHECKING:
    from accelerate import Accelerator


def train(
    job: TrainingJob,
    config: TrainConfig,
    out: Path,
    *,
    identity: Mapping[str, Any] | None = None,
    device: Device = "auto",
    show_progress: bool = True,
) -> bool:
    """Train `job.module` in place, continuing from the latest checkpoint in `out`.

    Returns True on the main process, which saves and uses the trained module. A sharded module
    stays sharded; `load_latest` loads the full weights into an unsharded one. Ctrl-C and SIGTERM
    save a checkpoint after the current step and say how to continue.

    Args:
        job: What is trained.
        config: How it is trained.
        out: Folder for `checkpoints/` and `train.jsonl`.
        identity: JSON of what is trained on what; a checkpoint of something else is refused.
        device: Where to compute; see `resolve_device`.
        show_progress: Whether to show a bar.
    """
    run = TrainingRun(job, config, out, identity or {}, device)
    with (
        tensor_cores(run.accelerator.device),
        run.log(show_progress).open() as log,
        StopRequest().listening(run.accelerator.num_processes) as stop,
        run.checkpoints.written(),
    ):
        for step in range(run.step, config.steps):
            is_skipped = step + 1 in config.skip_steps
            log.after_step(step + 1, None if is_skipped else run.do_step(step))
            is_last = step + 1 == config.steps
            stopped_by = stop.agreed(is_last=is_last)
            if is_last or (step + 1) % config.checkpoint_every == 0 or stopped_by:
                log.require_finite()
                run.save(step + 1, is_final=is_last or stopped_by > 0)
            if stopped_by and not is_last:
                end_stopped(stopped_by, step + 1, is_main=run.accelerator.is_main_process)
    run.use_average()
    return bool(run.accelerator.is_main_process)


class _LossModule(nn.Module):
    """The job's loss as a forward pass, so that gradients are averaged over processes."""

    def __init__(self, job: TrainingJob) -> None:
        super().__init__()
        self.module = job.module
        self._loss = job.loss

    def forward(self, keys_B: Tensor, *batch: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Total, detached parts and whether all inputs are finite, which DDP can traverse."""
        random = SampleRandom(keys_B)
        loss = self._loss(batch, random)
        checks = [torch.isfinite(x).all() for x in batch if x.is_floating_point()]
        has_finite_inputs = torch.stack([*checks, random.is_finite]).all()
        parts = {name: part.detach() for name, part in loss.parts.items()}
        return loss.total, parts, has_finite_inputs

    def compute(self, function: Callable[[int], Tensor], number: int) -> Tensor:
        """Compute something that needs the weights, which a sharded module gathers meanwhile."""
        return function(number)


class TrainingRun:
    """The state of a run and one step of it."""

    def __init__(
        self,
        job: TrainingJob,
        config: TrainConfig,
        out: Path,
        identity: Mapping[str, Any],
        device: Device = "auto",
    ) -> None:
        require_trackers(config.trackers)
        if is_sharding_asked():
            _require_shardable(job.module, config)
        place = resolve_device(device)
        config = with_precision(config, job.module, place)
        self.job, self.config, self.out = job, config, out
        self.accelerator = _make_accelerator(config, place, out)
        world = self.accelerator.num_processes
        if config.batch_size % (world * config.accumulate):
            raise ValueError(
                f"batch_size {config.batch_size} is not divisible by {world} processes times "
                f"{config.accumulate} parts"
            )
        self._loss_module = _LossModule(job)
        self.model: nn.Module = self._loss_module
        self.is_sharded = is_sharding_asked() and world > 1
        if not self.is_sharded:  # sharding moves one layer at a time, where all have no room
            job.module.to(self.accelerator.device)
        frozen = frozen_digest(job.module)
        if self.is_sharded:
            # where not all layers take weights of bfloat16, autocast makes copies as without shards
            is_bfloat16 = config.precision == "bfloat16" and prefers_bfloat16(job.module)
            shard(self.model, cast(Any, job.module).blocks, is_bfloat16=is_bfloat16)
            gather_in(self.model, "compute")
        self.optimizer = make_optimizer(job.module, config)
        self.average = begin_average(job.module) if config.ema else None
        decisive = {**config.decisive(), **identity}
        self.checkpoints = Checkpoints(
            out / "checkpoints", decisive, config.keep_checkpoints, frozen
        )
        self.step = self.checkpoints.restore(job.module, self.optimizer, self.average)
        if not self.is_sharded:
            self.model = self.accelerator.prepare(self.model)
        steps = (n for n in range(self.step, config.steps) if n + 1 not in config.skip_steps)
        plan = (self._indices(step)[part] for step in steps for part in self._parts())
        self._batches = read_ahead(job.batch, plan, config.workers)

    def do_step(self, step: int) -> StepOutcome:
        """Do one optimizer step; returns what this process saw of it."""
        config, accelerator = self.config, self.accelerator
        self.job.module.train()
        keys = sample_keys(config.seed, step, torch.arange(config.batch_size))
        parts = self._parts()
        total = torch.zeros((), device=accelerator.device)
        logged: dict[str, list[Tensor]] = {}
        has_finite_inputs = torch.ones((), dtype=torch.bool, device=accelerator.device)
        waited_s = 0.0
        for number, part in enumerate(parts):
            start = time.perf_counter()
            read = next(self._batches)
            waited_s += time.perf_counter() - start
            batch = tuple(t.to(accelerator.device) for t in read)
            is_last = number == len(parts) - 1
            with self._no_gradient_sync(not is_last):
                with accelerator.autocast():
                    loss, named, are_finite = self.model(keys[part].to(accelerator.device), *batch)
                    loss = loss / len(parts)
                accelerator.backward(loss)
            total += loss.detach()
            has_finite_inputs &= are_finite
            for name, values in named.items():
                logged.setdefault(name, []).append(values.reshape(-1))
        drop_early_gradients(self.optimizer, config, step)
        norm = accelerator.clip_grad_norm_(self.job.module.parameters(), config.clip)
        set_learning_rates(self.optimizer, config, step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.job.after_step(accelerator.gather, SampleRandom(keys.to(accelerator.device)))
        if self.average is not None:
            move_average(self.average, self.job.module, config.ema, step)
        loss = TrainingLoss(total, {name: torch.cat(values) for name, values in logged.items()})
        is_finite = torch.isfinite(total) & torch.isfinite(full_tensor(norm))
        return StepOutcome(loss, is_finite, has_finite_inputs, waited_s)

    @contextmanager
    def _no_gradient_sync(self, skip: bool) -> Iterator[None]:
        """Skip averaging gradients over processes while `skip` is true."""
        if self.is_sharded:
            average_gradients(self.model, not skip)
            yield
        elif skip:
            with self.accelerator.no_sync(self.model):
                yield
        else:
            yield

    def _indices(self, step: int) -> NDArray[np.int64]:
        config = self.config
        return sample_indices(
            config.seed,
            step,
            config.batch_size,
            self.job.num_samples,
            run_length=config.run_length,
        )

    def _parts(self) -> list[NDArray[np.int64]]:
        """Indices into the global batch for each accumulation part of this process."""
        config, accelerator = self.config, self.accelerator
        share = config.batch_size // accelerator.num_processes
        mine = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
        return np.array_split(np.arange(config.batch_size)[mine], config.accumulate)

    def save(self, step: int, *, is_final: bool) -> None:
        """Begin to write a checkpoint of the state after `step` steps; wait for a final one."""
        # every process gives its part of sharded weights
        if self.is_sharded or self.accelerator.is_main_process:
            self.checkpoints.save(
                step,
                self.job.module,
                self.optimizer,
                self.average,
                is_writer=self.accelerator.is_main_process,
            )
        if is_final:
            # a launcher kills all processes when one of them ends
            self.checkpoints.wait()
        self.accelerator.wait_for_everyone()

    def use_average(self) -> None:
        """Load the moving average of the weights, if any, into the module and switch it to eval
        mode."""
        if self.average is not None:
            use_average(self.average, self.job.module)
        self.job.module.eval()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """The job's numbers on held-out data, in the precision of training, by all processes."""
        self.job.module.eval()
        with self.accelerator.autocast():
            return self.job.evaluate(self._spread)

    def _spread(self, function: Callable[[int], Tensor], count: int) -> list[Tensor]:
        """What a function gives for the numbers below `count`, each from one process.

        All processes call it equally often, because they gather sharded weights together.
        """
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        rounds = math.ceil(count / world)
        numbers = [min(turn * world + rank, count - 1) for turn in range(rounds)]
        own = torch.stack([self._loss_module.compute(function, number) for number in numbers])
        if self.is_sharded:
            reshard(self.model)
        everywhere = self.accelerator.gather(own)
        return [everywhere[number % world * rounds + number // world] for number in range(count)]

    def log(self, show_progress: bool) -> TrainingLog:
        """The log of this run, which begins where its checkpoint ends."""
        return TrainingLog(
            self.accelerator,
            self.config,
            self.out,
            self.checkpoints,
            self.step,
            evaluate=self.evaluate,
            show_progress=show_progress,
        )


def sample_indices(
    seed: int, step: int, batch_size: int, num_samples: int, *, run_length: int = 1
) -> NDArray[np.int64]:
    """The samples of a step's global batch, uniform with replacement, or runs of successive ones
    that begin anywhere; the first follows the last."""
    rng = np.random.Generator(np.random.Philox(key=[seed, step]))
    first_R = rng.integers(num_samples, size=-(-batch_size // run_length))
    run_RN = (first_R[:, None] + np.arange(run_length)) % num_samples
    return run_RN.ravel()[:batch_size]


def _make_accelerator(config: TrainConfig, device: torch.device, out: Path) -> Accelerator:
    """What computes and averages over processes, in the resolved precision of the config."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

    # Accelerate keeps precision and device of the first run in global state
    AcceleratorState._reset_state(reset_partial_state=True)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # Accelerate takes the current one
    return Accelerator(
        mixed_precision="bf16" if config.precision == "bfloat16" else "no",
        cpu=device.type == "cpu",
        log_with=list(config.trackers) or None,
        project_dir=str(out),
        kwargs_handlers=[
            # gradients live in the buckets that are averaged, not beside them
            DistributedDataParallelKwargs(gradient_as_bucket_view=True),
            # all wait while one writes tens of gigabytes
            InitProcessGroupKwargs(timeout=timedelta(hours=2)),
        ],
    )


def _require_shardable(module: nn.Module, config: TrainConfig) -> None:
    if not hasattr(module, "blocks"):
        raise TrainingError(
            f"{type(module).__name__} has no `blocks` to shard: launch with "
            "configs/accelerate/ddp.yaml"
        )
    if not OPTIMIZERS[config.optimizer].is_elementwise:
        known = " or ".join(name for name, entry in OPTIMIZERS.items() if entry.is_elementwise)
        raise TrainingError(
            f"{config.optimizer} needs whole matrices: shard with --optimizer {known}"
        )
