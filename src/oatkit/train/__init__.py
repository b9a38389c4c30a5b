"""One loop that fits anything with a loss."""

from oatkit.train.checkpoint import load_latest
from oatkit.train.loop import Job, TrainConfig, train

__all__ = ["Job", "TrainConfig", "load_latest", "train"]
