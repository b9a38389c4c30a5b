"""What training tells while it runs: rows of `train.jsonl`, trackers and the progress bar."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oatkit.errors import DivergedError, TrainingError
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.progress_bar import TrainingProgress
from oatkit.train.train_config import TrainConfig

LOG_FILE = "train.jsonl"
MUCH_WAITING = 0.5
"""Share of the time from which on waiting for data is worth a note."""
PAUSE = 10
"""How many times as long as usual a step takes, from which on the run was paused."""


@dataclass(frozen=True)
class StepOutcome:
    """What one process saw of a step; tensors, so that nothing waits for the device.

    Attributes:
        loss: Loss of this process's samples, and its parts.
        is_finite: Whether the loss and the norm of the gradient are finite.
        has_finite_inputs: Whether the samples and their random numbers are.
        waited_s: Seconds in which the step waited for its samples.
    """

    loss: TrainingLoss
    is_finite: Tensor
    has_finite_inputs: Tensor
    waited_s: float = 0.0


class TrainingLog:
    """The log of one run.

    Losses are collected as tensors and looked at only when a row is written, so that a step does
    not wait for the device.

    Args:
        accelerator: The run's, to average over processes.
        config: How it is trained.
        out: Folder of the log.
        checkpoints: The run's; the latest is named where a loss is not finite.
        done: Number of steps that were done before; rows of later steps are dropped.
        evaluate: Function that gives numbers on held-out data; all processes call it.
        show_progress: Whether to show a bar.
    """

    def __init__(
        self,
        accelerator: Any,
        config: TrainConfig,
        out: Path,
        checkpoints: Checkpoints,
        done: int,
        *,
        evaluate: Callable[[], dict[str, float]],
        show_progress: bool,
    ) -> None:
        self._accelerator, self._config = accelerator, config
        self._path, self._checkpoints = out / LOG_FILE, checkpoints
        self._evaluate = evaluate
        self._losses: list[Tensor] = []
        self._checks: list[tuple[int, Tensor]] = []
        self._parts: dict[str, list[Tensor]] = {}
        self._waited_s = 0.0
        self._num_rows = 0
        self._since = (time.perf_counter(), done)
        is_shown = show_progress and accelerator.is_main_process
        self._progress = TrainingProgress(config.steps, done, is_shown=is_shown)
        if accelerator.is_main_process:
            _truncate(self._path, done)
        if config.trackers:
            accelerator.init_trackers("oatkit", config=_plain(asdict(config)))

    @contextmanager
    def open(self) -> Iterator[TrainingLog]:
        """Show the bar while the block runs, and end the trackers when it succeeds."""
        with self._progress.shown():
            yield self
        if self._config.trackers:
            self._accelerator.end_training()

    def after_step(self, step: int, result: StepOutcome | None) -> None:
        """Note the loss of step number `step`, counted from 1; write a row if one is due.

        A step that was skipped has no result. Where all steps of a row were, there is no row.
        """
        if result is not None:
            self._losses.append(result.loss.total)
            self._waited_s += result.waited_s
            both = torch.stack([result.is_finite, result.has_finite_inputs])
            self._checks.append((step, both.float()))
            for name, values in result.loss.parts.items():
                self._parts.setdefault(name, []).append(values)
        is_due = step % self._config.log_every == 0 or step == self._config.steps
        if is_due and self._losses:
            self._write(step)
        self._progress.advance(step)

    def require_finite(self) -> None:
        """Raise a `DivergedError` if the loss of a step since the last row is not finite.

        All processes must call this together, and all raise it if one of them saw such a loss.
        """
        if not self._checks:
            return
        steps, checks = zip(*self._checks, strict=True)
        everywhere = self._accelerator.gather(torch.stack(checks)).view(-1, len(steps), 2)
        is_finite_S, has_finite_inputs_S = everywhere.amin(dim=0).bool().T.tolist()
        self._checks.clear()
        if all(is_finite_S):
            return
        first = is_finite_S.index(False)
        # a launcher kills all processes when one has ended; the last checkpoint comes first
        self._checkpoints.wait()
        self._accelerator.wait_for_everyone()
        raise DivergedError(self._advice(steps[first], has_finite_inputs_S[first]))

    def _advice(self, step: int, has_finite_inputs: bool) -> str:
        """Where the loss became non-finite, and how to go on."""
        skip = " ".join(map(str, sorted({*self._config.skip_steps, step})))
        go_on = f"the same command with --skip-steps {skip} goes on from there without that step"
        advice = f"its samples or random numbers were not finite: {go_on}"
        if has_finite_inputs:
            advice = (
                f"its samples and random numbers were finite: {go_on}; if it happens again, train "
                "with a lower learning rate in another --out"
            )
        rate = self._config.learning_rate_at(step - 1)
        return (
            f"the loss became non-finite in step {step} at a learning rate of {rate:g}; the last "
            f"good checkpoint is {self._checkpoints.latest() or 'none'}; {advice}"
        )

    def _write(self, step: int) -> None:
        self.require_finite()
        config = self._config
        own = torch.stack(self._losses).mean()
        both = torch.stack([own, own.new_tensor(self._waited_s)])
        mean, waited_s = self._accelerator.reduce(both, "mean").tolist()
        self._losses.clear()
        self._waited_s = 0.0
        parts = self._mean_parts()
        now = time.perf_counter()
        rate = (step - self._since[1]) * config.batch_size / (now - self._since[0])
        waiting = waited_s / (now - self._since[0])
        self._since = (now, step)
        self._progress.announce((config.steps - step) * config.batch_size / rate)
        row = {"step": step, "loss": mean, "samples_per_s": round(rate, 1)}
        row["waiting_share"] = round(waiting, 3)
        row["learning_rate"] = config.learning_rate_at(step - 1)
        if config.has_own_expert_rate:
            row["expert_learning_rate"] = config.expert_learning_rate_at(step - 1)
        row |= parts
        is_due = step % config.evaluate_every == 0 or step == config.steps
        if is_due:
            found = self._evaluate()
            row |= found
            self._progress.report(step, found)
        if self._accelerator.is_main_process:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        self._accelerator.log({k: v for k, v in row.items() if k != "step"}, step=step)
        self._progress.update(mean, rate, parts, waiting)
        self._num_rows += 1
        if waiting > MUCH_WAITING and self._num_rows > 1:  # workers start during the first
            self._progress.caution(
                f"{100 * waiting:.0f} % of the time is spent waiting for data: more worker "
                f"processes (--workers, now {config.workers}) read it faster"
            )

    def _mean_parts(self) -> dict[str, float]:
        """The mean of each part since the last row; a part without any value is left out."""
        if not self._parts:
            return {}
        values = [torch.cat(steps) for steps in self._parts.values()]
        sums = torch.stack([v.nansum() for v in values])
        counts = torch.stack([(~v.isnan()).sum() for v in values]).to(sums)
        both = self._accelerator.reduce(torch.stack([sums, counts]), "sum").tolist()
        names = list(self._parts)
        self._parts.clear()
        return {n: total / count for n, total, count in zip(names, *both, strict=True) if count}


def read_log(folder: Path) -> list[dict[str, float]]:
    """What training logged into an artifact's folder, a row every few steps."""
    return [json.loads(line) for line in (folder / LOG_FILE).read_text().splitlines()]


def training_seconds(log: Sequence[dict[str, float]], batch_size: int) -> float:
    """Time spent in the logged steps, whatever pauses there were between runs or in one.

    A machine that slept makes an interval of steps last for hours: intervals that took more than
    `PAUSE` times as long as the usual one count as usual.
    """
    steps = np.diff([0, *(row["step"] for row in log)])
    step_s = batch_size / np.array([row["samples_per_s"] for row in log])
    usual_s = np.median(step_s) if log else 0.0
    return float(sum(steps * np.where(step_s > PAUSE * usual_s, usual_s, step_s)))


def require_trackers(trackers: Sequence[str]) -> None:
    """Raise a `TrainingError` unless the packages of all trackers are installed."""
    for tracker in trackers:
        if importlib.util.find_spec(tracker) is None:
            raise TrainingError(f"the tracker {tracker} is not installed: pip install {tracker}")


def _truncate(path: Path, step: int) -> None:
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


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers and texts, which are all that trackers take as settings."""
    return {k: v if isinstance(v, int | float | str) else str(v) for k, v in values.items()}
