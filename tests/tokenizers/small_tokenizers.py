"""A small tokenizer of every kind in the table, on smooth random chunks."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.tokenizers import KINDS, ActionTokenizer, make_codec, make_config
from oatkit.tokenizers.codec import ChangesAfterStep, Codec, FittedCodec, LearnedCodec
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.klt_fit import CellsName

HORIZON, ACTION_DIM = 8, 3
SMALL: dict[str, Any] = {
    **{"width": 32, "num_layers": 1, "num_heads": 4, "codebook_size": 32, "latent_dim": 8},
    **{"num_tokens": 8, "levels": (5, 4), "vocab_size": 300},
}
"""Settings that keep a codec small; a kind takes those that its config has."""
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"klt, {cells} cells": {"cells": cells} for cells in get_args(CellsName) if cells != "auto"},
    "klt, one path": {"paths": 1},
    "klt, sixteen paths": {"paths": 16},
    "klt, corrected": {"correct": True},
    "oat, six tokens": {"num_tokens": 6},
    "oat, refined": {"num_tokens": 2, "refine": 4},
    "oat-pow2, refined": {"num_tokens": 4, "refine": 4},
}
"""Settings of a kind that make another codec of it."""
NAMES = (*KINDS, *VARIANTS)
"""What is tested: every kind in the table, and the variants."""


def kind_of(name: str) -> str:
    return name.split(",")[0]


def settings_of(name: str) -> dict[str, Any]:
    """The small settings of a kind, with what a variant changes."""
    known = KINDS[kind_of(name)].settings
    return {k: v for k, v in SMALL.items() if k in known} | VARIANTS.get(name, {})


@cache
def walks() -> NDArray[np.float32]:
    """(512, T, A): smooth raw chunks, each dimension in its own units."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(512, HORIZON, ACTION_DIM)).cumsum(axis=1)
    return (steps * [1.0, 100.0, 0.01] + [5.0, 0.0, -0.2]).astype(np.float32)


@cache
def make(name: str) -> ActionTokenizer:
    """A tokenizer with random weights where it would be trained, fitted where it is fitted."""
    torch.manual_seed(0)
    kind = kind_of(name)
    rows = walks().reshape(-1, ACTION_DIM)
    statistics = compute_statistics(lambda: [rows], dim=ACTION_DIM)
    normalizer = Normalizer.fit(statistics, KINDS[kind].normalization)
    codec = make_codec(
        make_config(kind, horizon=HORIZON, action_dim=ACTION_DIM, **settings_of(name))
    )
    chunks_BTA = torch.from_numpy(normalizer.normalize(walks()))
    if isinstance(codec, ChangesAfterStep):
        loss_of(codec, chunks_BTA)
        codec.after_step(lambda tensor: tensor, random_of(chunks_BTA))
    if isinstance(codec, FittedCodec):
        codec.fit(lambda: iter(chunks_BTA.split(100)))
    facts = DataFacts(statistics, "f00d", ("x", "y", "z"), 20.0)
    return ActionTokenizer(codec, normalizer, facts, {"note": "kept"})


def random_of(chunks_BTA: torch.Tensor, step: int = 0) -> SampleRandom:
    return SampleRandom(sample_keys(0, step, torch.arange(len(chunks_BTA))))


def loss_of(codec: Codec, chunks_BTA: torch.Tensor) -> torch.Tensor:
    """The training loss of normalized chunks."""
    assert isinstance(codec, LearnedCodec)
    return codec.loss(chunks_BTA, random_of(chunks_BTA)).total


def clusters(count: int, seed: int) -> torch.Tensor:
    """(N, 4, 2): normalized chunks near one of 12 centers, the same for all seeds."""
    centers = 3 * torch.randn(12, 4, 2, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    which = torch.randint(12, (count,), generator=random)
    return centers[which] + 0.1 * torch.randn(count, 4, 2, generator=random)
