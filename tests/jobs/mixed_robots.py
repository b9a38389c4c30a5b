"""Small robots of different sizes, and policies for all of them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import oatkit
from oatkit.data.mixture import Mixture, open_mixture
from oatkit.jobs.mixture_policy_training import train_mixture_policy
from oatkit.jobs.mixture_training import train_mixture_tokenizer
from oatkit.policies import Policy

HORIZON = 8
RECIPE = {"steps": 2, "batch_size": 8}


def robot(dim: int, scale: float, fps: float, state_dim: int) -> oatkit.Dataset:
    """Random walks of a robot; its state is as long as asked for."""
    return oatkit.open_dataset(_walks(dim, scale, state_dim), fps=fps)


def _walks(dim: int, scale: float, state_dim: int) -> dict[str, Any]:
    rng = np.random.default_rng(dim)
    walk = np.cumsum(rng.normal(size=(6, 24, dim)), axis=1) * scale
    state = np.concatenate([walk + scale] * 3, axis=-1)[..., :state_dim]
    return {"action": walk, "observation.state": state}


def robot_on_disk(
    folder: Path, dim: int, camera: str | None = None, size: int = 0, tasks: tuple[str, ...] = ()
) -> oatkit.Dataset:
    """The same in files, perhaps with a square camera and tasks; its name is the folder's."""
    walks, rng = _walks(dim, 1.0, dim), np.random.default_rng(dim)
    folder.mkdir(parents=True)
    for episode in range(6):
        own: dict[str, Any] = {key: value[episode] for key, value in walks.items()}
        if camera is not None:
            pixels = rng.integers(256, size=(24, size, size, 3), dtype=np.uint8)
            own[f"observation.images.{camera}"] = pixels
        if tasks:
            own["task"] = tasks[episode % len(tasks)]
        np.savez(folder / f"{episode}.npz", **own, fps=10)
    return oatkit.open_dataset(str(folder))


def two_robots() -> Mixture:
    """A small robot at 10 Hz, and a larger one at 20 Hz whose actions are relative."""
    large = robot(5, 100.0, 20, 5).represented_as("relative:0-3")
    small = robot(2, 0.01, 10, 3)
    return open_mixture({"small": small, "large": large}, weights=[0.7, 0.3])


def trained_policies(
    mixture: Mixture, folder: Path, kind: str = "light", **how: Any
) -> dict[str, Policy]:
    """Tokenizers of `oat` in `folder/tokenizers`, and policies on them in `folder/policy`."""
    sizes: dict[str, Any] = {"horizon": HORIZON, "num_tokens": 4, "preset": "tiny"}
    train_mixture_tokenizer(mixture, "oat", folder / "tokenizers", train=RECIPE, **sizes)
    settings = {"preset": "tiny", "train": RECIPE, "device": "cpu", **how}
    return train_mixture_policy(mixture, folder / "tokenizers", kind, folder / "policy", **settings)
