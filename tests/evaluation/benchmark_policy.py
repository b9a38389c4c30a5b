"""An untrained policy for the benchmarks of the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import oatkit
from oatkit.policies import policy_for_dataset
from oatkit.tokenizers import ActionTokenizer, make_config
from tests.policies import tiny

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2}


def save_policy(
    folder: Path, horizon: int, action_dim: int, tasks: tuple[str, ...] = ("tidy up",)
) -> Path:
    """An untrained policy that reads a state of four numbers, as MetaWorld's arm has."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir(parents=True)
    for index in range(max(3, len(tasks))):
        columns = {
            "action": rng.uniform(-1, 1, (40, action_dim)),
            "observation.state": rng.normal(size=(40, 4)),
        }
        np.savez(folder / "data" / f"{index}.npz", **columns, task=tasks[index % len(tasks)])
    dataset = oatkit.open_dataset(folder / "data", cache_dir=folder / "cache")
    sizes = {"horizon": horizon, "action_dim": action_dim, "num_tokens": 4, **SMALL}
    tokenizer = ActionTokenizer.for_dataset(make_config("oat", **sizes), dataset)
    policy = policy_for_dataset(tiny.CONFIG, tokenizer, dataset)
    return policy.save_pretrained(folder / "policy")
