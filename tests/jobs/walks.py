"""A dataset of random walks: enough to train tokenizers in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_walks(path: Path, num_frames: int = 60) -> Path:
    """Twenty episodes of three action dimensions, as one npz file."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(20, num_frames, 3)).cumsum(axis=1)
    ends = np.arange(num_frames, 20 * num_frames + 1, num_frames)
    np.savez(path, action=steps.reshape(-1, 3), episode_ends=ends, fps=20)
    return path
