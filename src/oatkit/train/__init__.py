"""One loop that fits anything with a loss."""

from oatkit.train.checkpoint import load_latest
from oatkit.train.loop import TrainConfig, TrainingJob, train

__all__ = ["TrainConfig", "TrainingJob", "load_latest", "train"]
