"""An untrained policy for the plane, as an artifact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import oatkit
from oatkit.policies import policy_for_dataset
from tests.evaluation.plane import HORIZON, TASKS
from tests.policies import tiny


def save_plane_policy(folder: Path) -> Path:
    """Write a policy from state on `klt` tokens into a folder; returns its path."""
    rng = np.random.default_rng(0)
    (folder / "data").mkdir()
    for index, task in enumerate(TASKS.values()):
        columns = {
            "action": rng.uniform(-1, 1, (20, 2)),
            "observation.state": rng.uniform(0, 2, (20, 4)),
        }
        np.savez(folder / f"data/{index}.npz", **columns, task=task)
    dataset = oatkit.open_dataset(folder / "data", cache_dir=folder / "cache")
    tokenizer = tiny.make_tokenizer("klt", dataset, horizon=HORIZON, action_dim=2, num_tokens=4)
    torch.manual_seed(0)
    made = policy_for_dataset(tiny.CONFIG, tokenizer, dataset)
    keys = ["observation.state", "observation.environment_state"]
    made.extras = {"data": {"fps": 10.0, "state_keys": keys}}
    return made.save_pretrained(folder / "policy")
