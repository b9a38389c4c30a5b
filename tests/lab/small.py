"""A small lab: demonstrations with a camera, and a tokenizer of most kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from oatkit.data import Dataset, open_dataset
from oatkit.lab import Lab
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.codec import FittedCodec
from tests.data.datasets import Demo, write_npz_folder

HORIZON, LENGTH, EPISODES = 8, 40, 12
LEARNED = {"levels": (5, 4), "width": 32, "num_layers": 1, "num_heads": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "klt": {"num_tokens": 8, "levels": (5, 4)},
    "oat-pow2": {"num_tokens": 8, **LEARNED},
    "quest": LEARNED,
    "fast": {"vocab_size": 300},
    "bin": {},
}


def write_demos(folder: Path) -> Path:
    """Smooth walks in three dimensions, with images."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(EPISODES, LENGTH, 3)).cumsum(axis=1) * [1.0, 0.1, 10.0]
    demos = [Demo(walk.astype(np.float32), walk[:, :2].astype(np.float32)) for walk in steps]
    return write_npz_folder(folder / "demos", demos, images=True)


def make_tokenizer(kind: str, dataset: Dataset, horizon: int = HORIZON) -> ActionTokenizer:
    """Fitted where that is quick; networks keep their random weights."""
    train, _ = dataset.split(0.25, seed=0)
    torch.manual_seed(0)
    config = make_config(kind, horizon=horizon, action_dim=dataset.action_dim, **SETTINGS[kind])
    tokenizer = ActionTokenizer.for_dataset(config, train)
    tokenizer.extras = {
        "split": {"held_out": 0.25, "seed": 0},
        "rate_distortion": [{"budget": 1, "bits": 4.3, "mse": 0.5}],
    }
    if isinstance(tokenizer.codec, FittedCodec):
        chunks = train.chunks(horizon)
        actions_BTA, _ = chunks.actions(range(len(chunks)))
        block = torch.from_numpy(tokenizer.normalizer.normalize(actions_BTA))
        tokenizer.codec.fit(lambda: iter([block]))
    return tokenizer


def make_lab(folder: Path) -> Lab:
    dataset = open_dataset(write_demos(folder))
    return Lab({kind: make_tokenizer(kind, dataset) for kind in SETTINGS}, dataset)
