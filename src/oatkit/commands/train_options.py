"""How a command's flags change a preset's training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oatkit.train import TrainConfig

FLAGS = (
    *("steps", "batch_size", "optimizer", "learning_rate", "ema", "precision", "accumulate"),
    "workers",
    *("checkpoint_every", "seed", "trackers"),
)


def changed(config: TrainConfig, options: Any) -> TrainConfig:
    """The preset's recipe with those `FLAGS` of the options that are not None."""
    changes = {name: getattr(options, name, None) for name in FLAGS}
    config = replace(config, **{k: v for k, v in changes.items() if v is not None})
    # a run shorter than the preset's must not end while it still warms up
    return replace(config, warmup_steps=min(config.warmup_steps, config.steps // 5))
