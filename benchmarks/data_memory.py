"""Anonymous resident memory (RssAnon) of opening and sampling, as the dataset grows tenfold.

    python -m benchmarks.data_memory

Each measurement is a process of its own with torch imported, as in training: it opens a
LeRobot v3.0 dataset, computes its statistics and samples batches. A "cold" run decodes the dataset
into an empty cache, a "warm" one finds it there. "peak" is the highest of readings that are taken
every millisecond, "sampling" the highest while batches are sampled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import torch  # noqa: F401  a training process has it in memory too

import oatkit
from benchmarks.record import write_result
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature

SEED = 0
FRAMES_PER_EPISODE = 500
EPISODES = (200, 2000)
BATCHES = 2000
BATCH_SIZE = 256
HORIZON = 32


def main() -> None:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for episodes in EPISODES:
            root = Path(folder) / str(episodes)
            write_dataset(root, episodes)
            for run in ("cold", "warm"):
                name = f"{episodes * FRAMES_PER_EPISODE} frames, {run}"
                results[name] = measure_in_new_process(root, Path(folder) / "cache")
    small, large = (f"{e * FRAMES_PER_EPISODE} frames" for e in EPISODES)
    growth = {
        f"growth of {what}, {run}": round(
            results[f"{large}, {run}"][what] / results[f"{small}, {run}"][what] - 1, 4
        )
        for run in ("cold", "warm")
        for what in ("sampling_mb", "peak_mb")
    }
    settings = {
        "episodes": EPISODES,
        "frames_per_episode": FRAMES_PER_EPISODE,
        "action_dim": 7,
        "state_dim": 8,
        "batches": BATCHES,
        "batch_size": BATCH_SIZE,
        "horizon": HORIZON,
    }
    write_result("data_memory", seed=SEED, settings=settings, results=results | growth)


def write_dataset(root: Path, episodes: int) -> None:
    rng = np.random.default_rng(SEED)
    features = {"observation.state": Feature((8,)), "action": Feature((7,))}
    writer = LeRobotWriter(root, fps=20, features=features)
    for _ in range(episodes):
        columns = {
            key: rng.normal(size=(FRAMES_PER_EPISODE, f.size)) for key, f in features.items()
        }
        writer.add_episode(columns, task="walk")
    writer.close()


def measure_in_new_process(root: Path, cache: Path) -> dict[str, float]:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.data_memory", str(root), str(cache)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(ran.stdout)
    return result


def measure(root: Path, cache: Path) -> dict[str, float]:
    """RssAnon in MB while a dataset is opened, its statistics are computed and batches sampled."""
    readings = [rss_anon_mb()]
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.001):
            readings.append(rss_anon_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    dataset = oatkit.open_dataset(root, cache_dir=cache)
    dataset.action_statistics()
    train, _ = dataset.split(0.1)
    chunks = train.chunks(HORIZON, history=2)
    rng = np.random.default_rng(SEED)
    first_sampling = len(readings)
    for _ in range(BATCHES):
        chunks.sample(BATCH_SIZE, rng)
    is_done.set()
    watcher.join()
    return {
        "start_mb": round(readings[0], 2),
        "sampling_mb": round(max(readings[first_sampling:]), 2),
        "peak_mb": round(max(readings), 2),
    }


def rss_anon_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("this kernel does not report RssAnon")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        main()
