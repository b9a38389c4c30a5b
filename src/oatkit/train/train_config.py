"""How something is trained: steps, optimizer, learning rate, checkpoints, logs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from oatkit.errors import unknown_name
from oatkit.train.optimizers import OPTIMIZERS

Precision = Literal["float32", "bfloat16"]
"""Number formats that a training can compute in."""

TRACKERS = ("tensorboard", "wandb", "trackio")
"""Where else a run can be logged; names of packages that accelerate knows."""

NOT_DECISIVE = frozenset(
    {"checkpoint_every", "keep_checkpoints", "evaluate_every", "log_every", "trackers", "workers"}
)
"""Settings that do not change the weights that come out."""

ADDED = ("expert_learning_rate", "expert_start", "skip_steps", "run_length")
"""Settings that the first checkpoints did not hold: at their defaults they decide nothing."""


AT_LEAST_1 = (
    *("steps", "batch_size", "accumulate", "log_every", "run_length"),
    *("checkpoint_every", "keep_checkpoints", "evaluate_every"),
)


@dataclass(frozen=True)
class TrainConfig:
    """How something is trained."""

    steps: int = 10_000
    """Number of optimizer steps."""
    batch_size: int = 512
    """Number of samples in a step, over all processes."""
    optimizer: str = "adamw"
    """Name in the table of `optimizers.py`."""
    learning_rate: float = 5e-5
    """Largest learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate after the warmup: it stays, or falls along a cosine."""
    min_ratio: float = 0.1
    """Where the cosine ends, as a share of the learning rate."""
    warmup_steps: int = 0
    """Number of first steps in which the learning rate rises from 0."""
    expert_learning_rate: float | None = None
    """Largest learning rate of the flow expert; that of all other parameters if None."""
    expert_start: int = 0
    """Number of first steps in which the flow expert does not learn; its warmup follows."""
    weight_decay: float = 0.0
    """Share of a weight, times the learning rate, that each step takes away."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decays of the optimizer's first and second moments."""
    clip: float = 1.0
    """Largest norm of the gradient; a larger gradient is scaled down to it."""
    ema: float = 0.0
    """Decay of a moving average of the weights, which is then what is kept; 0 for none."""
    precision: Precision | None = None
    """Number format of the computation, while weights are float32. None: the launcher's, else
    bfloat16 on CUDA for what prefers it (vision-language policies), else float32."""
    accumulate: int = 1
    """Number of parts that a batch is computed in, to save memory."""
    workers: int = 0
    """Number of processes of each rank that read batches ahead; 0 reads between steps."""
    run_length: int = 1
    """Number of successive samples that are drawn together, so that a video is decoded once for
    all of them; 1 draws every sample by itself."""
    seed: int = 0
    """Seed of which samples a step has and of their random numbers."""
    skip_steps: tuple[int, ...] = ()
    """Numbers of steps, counted from 1 as in the log, that are left out with their samples."""
    checkpoint_every: int = 1000
    """Number of steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of latest checkpoints that stay on disk."""
    evaluate_every: int = 1000
    """Number of steps between evaluations on held-out data."""
    log_every: int = 20
    """Number of steps between rows of the log."""
    trackers: tuple[str, ...] = ()
    """Where else to log: tensorboard, wandb, trackio."""

    def __post_init__(self) -> None:
        for name in AT_LEAST_1:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("workers", "expert_start"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more")
        if any(step < 1 for step in self.skip_steps):
            raise ValueError(f"skip_steps is {self.skip_steps}, expected numbers from 1")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema is {self.ema}, expected 0 or more and below 1")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(unknown_name("optimizer", self.optimizer, OPTIMIZERS))
        for tracker in self.trackers:
            if tracker not in TRACKERS:
                raise ValueError(unknown_name("tracker", tracker, TRACKERS))

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the result: a run continues only under the same ones."""
        free = NOT_DECISIVE | ({"steps"} if self.schedule == "constant" else set())
        return {name: value for name, value in self.settings().items() if name not in free}

    def settings(self) -> dict[str, Any]:
        """All settings but those that were added later and have their default."""
        unset = {name for name in ADDED if getattr(self, name) == getattr(TrainConfig, name)}
        return {name: value for name, value in asdict(self).items() if name not in unset}

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of the step with this number, counted from 0."""
        return self._scheduled(self.learning_rate, step, self.steps)

    @property
    def has_own_expert_rate(self) -> bool:
        """Whether the flow expert is trained otherwise than the rest."""
        return self.expert_learning_rate is not None or self.expert_start > 0

    def expert_learning_rate_at(self, step: int) -> float:
        """The flow expert's learning rate: 0 before its start, then a whole schedule."""
        if step < self.expert_start:
            return 0.0
        largest = self.expert_learning_rate
        largest = self.learning_rate if largest is None else largest
        return self._scheduled(largest, step - self.expert_start, self.steps - self.expert_start)

    def _scheduled(self, largest: float, step: int, steps: int) -> float:
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        if self.schedule == "constant":
            return largest * warm
        done = (step - self.warmup_steps) / max(1, steps - self.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
        return largest * warm * (self.min_ratio + (1 - self.min_ratio) * cosine)


def decided_until(settings: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Those of `decisive` settings that decide the first `step` steps: later ones may be skipped
    although the run has begun."""
    skipped = sorted({number for number in settings.get("skip_steps", ()) if number <= step})
    rest = {name: value for name, value in settings.items() if name != "skip_steps"}
    return rest | ({"skip_steps": skipped} if skipped else {})


def resolve_config(
    asked: TrainConfig | Mapping[str, Any] | None, preset: TrainConfig
) -> TrainConfig:
    """How to train: as asked, or as a preset says with those settings changed that are asked for.

    A run that is made shorter than the preset's does not end while it still warms up.
    """
    if isinstance(asked, TrainConfig):
        return asked
    changes = dict(asked or {})
    for name in changes:
        if name not in TrainConfig.__dataclass_fields__:
            raise ValueError(
                unknown_name("training setting", name, TrainConfig.__dataclass_fields__)
            )
    config = replace(preset, **changes)
    return replace(config, warmup_steps=min(config.warmup_steps, config.steps // 5))


def asked_settings(asked: TrainConfig | Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of `resolve_config`'s first argument: all of a config, or those changed."""
    return asked.settings() if isinstance(asked, TrainConfig) else dict(asked or {})
