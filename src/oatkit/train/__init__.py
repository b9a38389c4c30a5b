"""One loop that trains anything with a loss."""

from oatkit.train.checkpoint import load_latest
from oatkit.train.loop import train
from oatkit.train.train_config import TRACKERS, TrainConfig, asked_settings, resolve_config
from oatkit.train.training_job import TrainingJob
from oatkit.train.training_log import read_log, training_seconds

__all__ = [
    "TRACKERS",
    "TrainConfig",
    "TrainingJob",
    "asked_settings",
    "load_latest",
    "read_log",
    "resolve_config",
    "train",
    "training_seconds",
]
