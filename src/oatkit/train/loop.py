"""The training loop: the same for every tokenizer and policy, on one process or many.

What a step does follows from the seed, the step number and the state alone: which samples are
drawn, which random numbers they get, what the learning rate is. So a run killed at any moment and
started again ends where an uninterrupted one would, bit for bit, and `accelerate launch` on
several processes sees the same samples as one process.
"""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from oatkit.errors import TrainingError
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.prefetch import read_ahead
from oatkit.train.shard import average_gradients, is_sharding_asked, shard
from oatkit.train.soap import Soap

Tracker = Literal["tensorboard", "wandb", "trackio"]


@dataclass(frozen=True)
class TrainConfig:
    """How something is trained."""

    steps: int = 10_000
    """Optimizer steps."""
    batch_size: int = 512
    """Samples a step, over all processes."""
    optimizer: Literal["adamw", "soap"] = "adamw"
    """`soap` turns each matrix into the eigenbasis of its gradients; see `soap.py`."""
    learning_rate: float = 5e-5
    schedule: Literal["constant", "cosine"] = "constant"
    min_ratio: float = 0.1
    """Where the cosine ends, as a share of the learning rate."""
    warmup_steps: int = 0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float = 1.0
    """Largest norm of the gradient."""
    ema: float = 0.0
    """Decay of a moving average of the weights, which is then what is kept; 0 for none."""
    precision: Literal["float32", "bfloat16"] = "float32"
    accumulate: int = 1
    """In how many parts a batch is computed."""
    workers: int = 0
    """Processes of each rank that read batches ahead of the steps; 0 reads between them."""
    seed: int = 0
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    evaluate_every: int = 1000
    """Steps between evaluations on held-out data."""
    log_every: int = 20
    trackers: tuple[Tracker, ...] = ()
    """Where else to log: tensorboard, wandb, trackio."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.workers < 0:
            raise ValueError(f"workers is {self.workers}, expected 0 or more")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema is {self.ema}, expected 0 or more and below 1")

    def decisive(self) -> dict[str, Any]:
        """What decides the result, and so must be the same when a run goes on."""
        free = {"checkpoint_every", "keep_checkpoints", "evaluate_every", "log_every", "trackers"}
        free.add("workers")
        if self.schedule == "constant":
            free.add("steps")
        return {name: value for name, value in asdict(self).items() if name not in free}

    def learning_rate_at(self, step: int) -> float:
        """Of the step with this number, counted from 0."""
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        if self.schedule == "constant":
            return self.learning_rate * warm
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
        return self.learning_rate * warm * (self.min_ratio + (1 - self.min_ratio) * cosine)


class TrainingJob(Protocol):
    """What is trained: a module, its samples and its loss."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def num_samples(self) -> int: ...

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """The samples at `indices`, each tensor with the batch first."""

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        """The mean loss of the samples, and what else to log of it."""

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        """What follows the optimizer's step; `gather` joins a tensor over all processes."""

    def evaluate(self) -> dict[str, float]:
        """Numbers on held-out data, for the log."""


def train(
    job: TrainingJob,
    config: TrainConfig,
    out: Path,
    *,
    identity: Mapping[str, Any] | None = None,
    show_progress: bool = True,
) -> bool:
    """Train `job.module` in place, going on from the latest checkpoint in `out`.

    Gives whether this process is the one of several that goes on to use it. A module whose weights
    were sharded stays so: `load_latest` gives them to another. Ctrl-C saves a checkpoint after the
    current step and says how to go on.

    Args:
        job: What is trained.
        config: How.
        out: For `checkpoints/` and `train.jsonl`.
        identity: JSON of what is trained on what; a checkpoint of something else is refused.
        show_progress: Whether to draw a bar.
    """
    run = _Run(job, config, out, identity or {})
    with run.log(show_progress) as log, _stop_requested() as is_stop_requested:
        for step in range(run.step, config.steps):
            loss = run.do_step(step)
            log.after_step(step + 1, loss)
            is_last = step + 1 == config.steps
            if is_last or (step + 1) % config.checkpoint_every == 0 or is_stop_requested():
                log.require_finite(step + 1)
                run.save(step + 1)
            if is_stop_requested() and not is_last:
                raise KeyboardInterrupt(
                    f"stopped after step {step + 1}; the same command again continues"
                )
    run.keep_average()
    return bool(run.accelerator.is_main_process)


class _LossModule(nn.Module):
    """The job's loss as a forward pass, so that gradients are averaged over processes."""

    def __init__(self, job: TrainingJob) -> None:
        super().__init__()
        self.module = job.module
        self._loss = job.loss

    def forward(self, keys_B: Tensor, *batch: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Total and detached parts, in types that the wrappers of several processes look into."""
        loss = self._loss(batch, SampleRandom(keys_B))
        return loss.total, {name: part.detach() for name, part in loss.parts.items()}


class _Run:
    """The state of a run and one step of it."""

    def __init__(
        self, job: TrainingJob, config: TrainConfig, out: Path, identity: Mapping[str, Any]
    ) -> None:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        _require_trackers(config.trackers)
        if is_sharding_asked():
            _require_shardable(job.module, config)
        # or a second run of this process would have to have the precision of the first
        AcceleratorState._reset_state()
        self.job, self.config, self.out = job, config, out
        self.accelerator = Accelerator(
            mixed_precision="bf16" if config.precision == "bfloat16" else "no",
            cpu=not torch.cuda.is_available(),
            log_with=list(config.trackers) or None,
            project_dir=str(out),
        )
        world = self.accelerator.num_processes
        if config.batch_size % (world * config.accumulate):
            raise ValueError(
                f"batch_size {config.batch_size} is not divided by {world} processes times "
                f"{config.accumulate} parts"
            )
        job.module.to(self.accelerator.device)
        self.model: nn.Module = _LossModule(job)
        self.is_sharded = is_sharding_asked() and world > 1
        if self.is_sharded:
            is_bfloat16 = config.precision == "bfloat16"
            shard(self.model, cast(Any, job.module).blocks, is_bfloat16=is_bfloat16)
        self.optimizer = _optimizer(job.module, config)
        self.average = _copy_state(job.module) if config.ema else None
        self.checkpoints = Checkpoints(
            out / "checkpoints", {**config.decisive(), **identity}, config.keep_checkpoints
        )
        self.step = self.checkpoints.restore(job.module, self.optimizer, self.average)
        if not self.is_sharded:
            self.model = self.accelerator.prepare(self.model)
        steps = range(self.step, config.steps)
        plan = (self._indices(step)[part] for step in steps for part in self._parts())
        self._batches = read_ahead(job.batch, plan, config.workers)

    def do_step(self, step: int) -> TrainingLoss:
        """One optimizer step; gives this process's loss."""
        config, accelerator = self.config, self.accelerator
        self.job.module.train()
        keys = sample_keys(config.seed, step, torch.arange(config.batch_size))
        parts = self._parts()
        total = torch.zeros((), device=accelerator.device)
        logged: dict[str, list[Tensor]] = {}
        for number, part in enumerate(parts):
            batch = tuple(t.to(accelerator.device) for t in next(self._batches))
            is_last = number == len(parts) - 1
            with self._gradients_kept_apart(not is_last):
                with accelerator.autocast():
                    loss, named = self.model(keys[part].to(accelerator.device), *batch)
                    loss = loss / len(parts)
                accelerator.backward(loss)
            total += loss.detach()
            for name, values in named.items():
                logged.setdefault(name, []).append(values.reshape(-1))
        accelerator.clip_grad_norm_(self.job.module.parameters(), config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate_at(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.job.after_step(accelerator.gather, SampleRandom(keys.to(accelerator.device)))
        if self.average is not None:
            _move_average(self.average, self.job.module, config.ema, step)
        return TrainingLoss(total, {name: torch.cat(values) for name, values in logged.items()})

    @contextmanager
    def _gradients_kept_apart(self, is_apart: bool) -> Iterator[None]:
        """Average gradients over processes only with the last part of a batch."""
        if self.is_sharded:
            average_gradients(self.model, not is_apart)
            yield
        elif is_apart:
            with self.accelerator.no_sync(self.model):
                yield
        else:
            yield

    def _indices(self, step: int) -> NDArray[np.int64]:
        config = self.config
        return sample_indices(config.seed, step, config.batch_size, self.job.num_samples)

    def _parts(self) -> list[NDArray[np.int64]]:
        """Places in the global batch, of each part that this process computes."""
        config, accelerator = self.config, self.accelerator
        share = config.batch_size // accelerator.num_processes
        mine = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
        return np.array_split(np.arange(config.batch_size)[mine], config.accumulate)

    def save(self, step: int) -> None:
        # of sharded weights every process gives its part
        if self.is_sharded or self.accelerator.is_main_process:
            self.checkpoints.save(
                step,
                self.job.module,
                self.optimizer,
                self.average,
                is_writer=self.accelerator.is_main_process,
            )
        self.accelerator.wait_for_everyone()

    def keep_average(self) -> None:
        """Leave the moving average in the module, if there is one, ready for use."""
        if self.average is not None:
            self.job.module.load_state_dict(self.average)
        self.job.module.eval()

    @contextmanager
    def log(self, show_progress: bool) -> Iterator[_Log]:
        log = _Log(self, show_progress and self.accelerator.is_main_process)
        with log.progress:
            yield log
        log.close()


class _Log:
    """The progress bar, the JSONL file and the trackers."""

    def __init__(self, run: _Run, is_shown: bool) -> None:
        self._run = run
        self._losses: list[Tensor] = []
        self._parts: dict[str, list[Tensor]] = {}
        self._since = (time.perf_counter(), run.step)
        self._path = run.out / "train.jsonl"
        columns = (
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[parts]}"),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), disable=not is_shown)
        self._bar = self.progress.add_task(
            "training", total=run.config.steps, completed=run.step, numbers="", parts=""
        )
        if run.accelerator.is_main_process:
            _truncate_log(self._path, run.step)
        if run.config.trackers:
            run.accelerator.init_trackers("oatkit", config=_flat(asdict(run.config)))

    def after_step(self, step: int, loss: TrainingLoss) -> None:
        self._losses.append(loss.total)
        for name, values in loss.parts.items():
            self._parts.setdefault(name, []).append(values)
        config = self._run.config
        if step % config.log_every == 0 or step == config.steps:
            self._write(step)
        self.progress.update(self._bar, completed=step)

    def require_finite(self, step: int) -> None:
        """Raise a `TrainingError` if a loss since the last look was not finite."""
        if self._losses and not torch.isfinite(torch.stack(self._losses)).all():
            run = self._run
            good = run.checkpoints.latest()
            raise TrainingError(
                f"the loss became non-finite by step {step} at a learning rate of "
                f"{run.config.learning_rate_at(step - 1):g}; the last good checkpoint is "
                f"{good or 'none'}: lower the learning rate and go on from there"
            )

    def close(self) -> None:
        if self._run.config.trackers:
            self._run.accelerator.end_training()

    def _write(self, step: int) -> None:
        self.require_finite(step)
        run = self._run
        mean = run.accelerator.reduce(torch.stack(self._losses).mean(), "mean").item()
        self._losses.clear()
        parts = self._mean_parts()
        now = time.perf_counter()
        rate = (step - self._since[1]) * run.config.batch_size / (now - self._since[0])
        self._since = (now, step)
        row = {"step": step, "loss": mean, "samples_per_s": round(rate, 1)}
        row["learning_rate"] = run.config.learning_rate_at(step - 1)
        row |= parts
        is_due = step % run.config.evaluate_every == 0 or step == run.config.steps
        if is_due and not run.is_sharded:
            run.job.module.eval()
            found = run.job.evaluate()
            row |= found
            if not self.progress.disable:
                shown = "  ".join(f"{name} {value:.3g}" for name, value in found.items())
                self.progress.print(f"step {step:,}:  {shown}", highlight=False)
        if run.accelerator.is_main_process:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        run.accelerator.log({k: v for k, v in row.items() if k != "step"}, step=step)
        shown = "  ".join(f"{name} {value:.3g}" for name, value in parts.items())
        numbers = f"loss {mean:.4g}  {rate:,.0f} samples/s"
        self.progress.update(self._bar, numbers=numbers, parts=shown if len(parts) > 1 else "")

    def _mean_parts(self) -> dict[str, float]:
        """The mean of each part since the last look; a part without any value is left out."""
        if not self._parts:
            return {}
        values = [torch.cat(steps) for steps in self._parts.values()]
        sums = torch.stack([v.nansum() for v in values])
        counts = torch.stack([(~v.isnan()).sum() for v in values]).to(sums)
        both = self._run.accelerator.reduce(torch.stack([sums, counts]), "sum").tolist()
        names = list(self._parts)
        self._parts.clear()
        return {n: total / count for n, total, count in zip(names, *both, strict=True) if count}


def _optimizer(module: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    settings: dict[str, Any] = {"lr": config.learning_rate, "betas": config.betas}
    if config.optimizer == "soap":
        return Soap(module.parameters(), **settings, weight_decay=config.weight_decay)
    # fused: one pass over all parameters
    return torch.optim.AdamW(
        module.parameters(), **settings, weight_decay=config.weight_decay, fused=True
    )


def sample_indices(seed: int, step: int, batch_size: int, num_samples: int) -> NDArray[np.int64]:
    """Which samples the global batch of a step holds, drawn uniformly with replacement."""
    rng = np.random.Generator(np.random.Philox(key=[seed, step]))
    return rng.integers(num_samples, size=batch_size)


@contextmanager
def _stop_requested() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question; the second is one again."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def request(*_: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, request)
    try:
        yield event.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _require_shardable(module: nn.Module, config: TrainConfig) -> None:
    if not hasattr(module, "blocks"):
        raise TrainingError(
            f"{type(module).__name__} is too small to be sharded: launch with "
            "configs/accelerate/ddp.yaml"
        )
    if config.optimizer == "soap":
        raise TrainingError("soap needs whole matrices: shard with --optimizer adamw")


def _require_trackers(trackers: tuple[Tracker, ...]) -> None:
    for tracker in trackers:
        if importlib.util.find_spec(tracker) is None:
            raise TrainingError(f"the tracker {tracker} is not installed: pip install {tracker}")


def _copy_state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


@torch.no_grad()
def _move_average(average: dict[str, Tensor], module: nn.Module, decay: float, step: int) -> None:
    """Towards the current weights; faster at first, so that the start is soon forgotten.

    Buffers are copied: a codebook that revives its dead codes has no meaningful average.
    """
    decay = min(decay, (1 + step) / (10 + step))
    for name, parameter in module.named_parameters():
        average[name].lerp_(parameter, 1 - decay)
    for name in average.keys() - dict(module.named_parameters()).keys():
        average[name].copy_(module.get_buffer(name))


def _truncate_log(path: Path, step: int) -> None:
    """Drop what a killed run logged past its checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # a line that the kill cut short
                break
            if row["step"] <= step:
                kept.append(line)
    path.write_text("".join(line + "\n" for line in kept))


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, int | float | str) else str(v) for k, v in values.items()}
