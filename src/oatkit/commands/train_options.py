"""How something is trained: the flags that all commands share that train one thing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from tyro.conf import arg

from oatkit.commands.choices import (
    LearningRateScheduleName,
    OptimizerName,
    PrecisionName,
    TrackerName,
)


@dataclass(frozen=True)
class TrainOptions:
    """How it is trained; the preset's way by default."""

    steps: int | None = None
    """Number of training steps; the preset's by default."""
    minutes: float | None = None
    """Training time instead of --steps, which are counted in a short trial; a run that was stopped
    goes on to the same end. A kind that is fitted gets as many chunks as the time holds."""
    batch_size: int | None = None
    """Number of chunks in a step; the preset's by default."""
    optimizer: OptimizerName | None = None
    """Optimizer; the preset's by default. The learning rate should suit it."""
    learning_rate: float | None = None
    """Learning rate; the preset's by default."""
    schedule: LearningRateScheduleName | None = None
    """Learning rate after the warmup: it stays, or falls along a cosine; the preset's by
    default."""
    warmup_steps: int | None = None
    """Number of first steps in which the learning rate rises from 0; the preset's by default, and
    at most a fifth of all steps."""
    ema: float | None = None
    """Decay of the moving average of the weights, 0 for none; the preset's by default."""
    precision: PrecisionName | None = None
    """Number format of the computation; by default the launcher's, else bfloat16 on CUDA for
    vision-language policies and float32 otherwise."""
    accumulate: int | None = None
    """Number of parts that a batch is computed in, to save memory."""
    seed: int = 0
    """Seed of the initial weights, the samples and everything random in training."""
    checkpoint_every: int | None = None
    """Number of steps between checkpoints; the preset's by default."""
    keep_checkpoints: int | None = None
    """Number of latest checkpoints that stay on disk; the preset's by default."""
    evaluate_every: int | None = None
    """Number of steps between evaluations on held-out data, which are done at rows of the log; the
    preset's by default."""
    skip_steps: tuple[int, ...] = ()
    """Steps that are left out with their samples, such as one whose loss is not finite."""
    trackers: tuple[TrackerName, ...] = ()
    """Where else to log."""

    def changes(self) -> dict[str, Any]:
        """The settings of a `TrainConfig` that the flags change."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        found.pop("minutes", None)  # no setting of a recipe, which counts steps
        return found


TrainFlags = Annotated[TrainOptions, arg(name="")]
"""A field of this type adds the flags to a command, without a prefix."""
