"""The episodes that an artifact was trained on, and those it was not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from oatkit.data import Dataset

SplitName = Literal["val", "train", "all"]
"""`val` for the held-out episodes, `train` for the others."""


def select_episodes(extras: Mapping[str, Any], dataset: Dataset, split: SplitName) -> Dataset:
    """The part of a dataset that an artifact held out, or was trained on.

    Args:
        extras: Extras of a tokenizer or policy, which say how its dataset was split.
        dataset: The same dataset.
        split: Which part.
    """
    if split == "all":
        return dataset
    made = extras.get("split")
    if made is None:
        raise ValueError("this artifact does not say how its data were split: use --split all")
    train, held_out = dataset.split(made["held_out"], seed=made["seed"])
    return train if split == "train" else held_out
