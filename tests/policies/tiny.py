"""A small dataset and small policies on every kind of tokenizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.policies import LightConfig, LightFlowConfig, Policy, policy_for_dataset
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.tokenizers import KINDS, ActionTokenizer, make_config
from oatkit.tokenizers.codec import FittedCodec

HORIZON, ACTION_DIM, STATE_DIM, HEIGHT, WIDTH = 8, 3, 5, 20, 24
TASKS = ("open the door", "close the door")
LEARNED = {"width": 16, "num_layers": 1, "num_heads": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "oat": {"num_tokens": 6, "levels": (5, 4), **LEARNED},
    "oat-pow2": {"num_tokens": 8, "levels": (5, 4), **LEARNED},
    "bin": {"num_bins": 16},
    "fast": {"vocab_size": 300},
    "quest": {"levels": (5, 4), **LEARNED},
    "acodec": {"num_tokens": 4, "codebook_size": 32, "latent_dim": 8, **LEARNED},
    "klt": {"num_tokens": 6, "levels": (5, 4)},
}
CONFIG = LightConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    dropout=0.0,
    image_size=40,
    crop_size=36,
    image_channels=4,
    num_points=4,
)


def write_dataset(path: Path, *, num_episodes: int = 10, length: int = 20) -> Path:
    """Actions that follow from the state, two tasks, one camera."""
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    for index in range(num_episodes):
        state = rng.normal(size=(length, STATE_DIM)).cumsum(axis=0)
        noise = 0.1 * rng.normal(size=(length, ACTION_DIM))
        np.savez(
            path / f"{index:02d}.npz",
            **{
                "action": np.tanh(state[:, :ACTION_DIM]) * [1.0, 100.0, 0.01] + noise * 0.01,
                "observation.state": state,
                "observation.images.front": rng.integers(
                    256, size=(length, HEIGHT, WIDTH, 3), dtype=np.uint8
                ),
            },
            task=TASKS[index % 2],
        )
    return path


def make_tokenizer(kind: str, dataset: Dataset, **settings: Any) -> ActionTokenizer:
    """Fitted where that is quick, else with random weights."""
    torch.manual_seed(0)
    sizes = {"horizon": HORIZON, "action_dim": ACTION_DIM, **SETTINGS[kind], **settings}
    tokenizer = ActionTokenizer.for_dataset(make_config(kind, **sizes), dataset)
    if isinstance(tokenizer.codec, FittedCodec):
        actions = dataset.chunks(HORIZON).actions(np.arange(dataset.num_frames))[0]
        chunks = torch.from_numpy(tokenizer.normalizer.normalize(actions))
        tokenizer.codec.fit(lambda: iter([chunks]))
    return tokenizer


def write_tokenizers(folder: Path, data: Path) -> Path:
    """A folder with a tokenizer of every kind, by its name."""
    dataset = oatkit.open_dataset(data, cache_dir=folder / "cache")
    for kind in KINDS:
        make_tokenizer(kind, dataset).save_pretrained(folder / kind)
    return folder


def make_policy(kind: str, dataset: Dataset, *, offset_layers: int = 0, **settings: Any) -> Policy:
    tokenizer = make_tokenizer(kind, dataset)
    torch.manual_seed(1)
    config = replace(CONFIG, offset_layers=offset_layers)
    policy = policy_for_dataset(config, tokenizer, dataset, **settings)
    for parameter in policy.net.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return policy


def make_flow_policy(dataset: Dataset, **settings: Any) -> Policy:
    tokenizer = make_tokenizer("bin", dataset)
    torch.manual_seed(1)
    return policy_for_dataset(LightFlowConfig(CONFIG), tokenizer, dataset, **settings)


def two_lengths(edge_bits: float) -> AutoExecution:
    """A table of two bins, of which the one of surer tokens, up to `edge_bits`, has more steps."""
    table = AutoExecution((edge_bits,), ((0.1,) * HORIZON, (0.3,) + (9.0,) * (HORIZON - 1)))
    assert table.bin_steps[0] > table.bin_steps[1]
    return table


def batch(policy: Policy, dataset: Dataset, size: int = 3) -> dict[str, Any]:
    chunks = dataset.chunks(
        HORIZON, history=policy.spec.history, cameras=tuple(policy.spec.cameras)
    )
    return chunks.batch(np.linspace(0, len(chunks) - 1, size).astype(int))


def row(observation: dict[str, Any], index: int) -> dict[str, Any]:
    """One row of a batch as a batch of one."""
    return {key: values[index : index + 1] for key, values in observation.items()}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
