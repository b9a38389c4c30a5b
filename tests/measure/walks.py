"""A small dataset of random walks, and tokenizers made from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.tokenizers import ActionTokenizer, make_config

HORIZON = 8


def walks(folder: Path) -> Dataset:
    """Twelve episodes of a hundred steps, in three dimensions of very different size."""
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(1200, 3)).cumsum(axis=0) * [1, 10, 0.1]
    np.savez(folder / "walks.npz", action=actions, episode_ends=np.arange(100, 1201, 100))
    return oatkit.open_dataset(folder / "walks.npz")


def make_tokenizer(kind: str, dataset: Dataset, **settings: object) -> ActionTokenizer:
    """A tokenizer of chunks of `HORIZON` steps: fitted, or with random weights."""
    torch.manual_seed(0)
    config = make_config(kind, horizon=HORIZON, action_dim=3, **settings)
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    if hasattr(tokenizer.codec, "fit"):
        chunks = dataset.chunks(HORIZON)
        normalized = tokenizer.normalizer.normalize(chunks.actions(np.arange(len(chunks)))[0])
        tokenizer.codec.fit(lambda: iter([torch.from_numpy(normalized)]))
    return tokenizer
