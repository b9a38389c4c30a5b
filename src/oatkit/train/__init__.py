"""One loop that fits anything with a loss."""

from oatkit.train.loop import Job, TrainConfig, train

__all__ = ["Job", "TrainConfig", "train"]
