"""How many chunks a second are sampled in random batches, on one core.

python -m benchmarks.data_sampling
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import oatkit
from benchmarks.data_memory import write_dataset
from benchmarks.record import write_result
from oatkit.data import Chunks

SEED = 0
EPISODES = 1000
BATCH_SIZE = 256
HORIZON = 32
REPEATS = 7
SECONDS = 1.0


def main() -> None:
    os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(Path(folder) / "data", EPISODES)
        dataset = oatkit.open_dataset(Path(folder) / "data", cache_dir=Path(folder) / "cache")
        chunks = dataset.chunks(HORIZON)
        rates = [round(chunks_per_s(chunks)) for _ in range(REPEATS)]
    settings = {
        "frames": dataset.num_frames,
        "chunk": [HORIZON, dataset.action_dim],
        "state_dim": dataset.state_dim,
        "batch_size": BATCH_SIZE,
    }
    results = {"chunks_per_s": median(rates), "lowest": min(rates), "highest": max(rates)}
    write_result("data_sampling", seed=SEED, settings=settings, results=results)


def chunks_per_s(chunks: Chunks) -> float:
    rng = np.random.default_rng(SEED)
    count, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < SECONDS:
        chunks.sample(BATCH_SIZE, rng)
        count += BATCH_SIZE
    return count / taken


if __name__ == "__main__":
    main()
