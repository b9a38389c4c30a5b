"""Time and memory of statistics and of fitted kinds, as a dataset grows to ten million frames.

    python -m benchmarks.fit_streams [--frames 10000000 1000000]

The dataset is made for this: episodes of a thousand frames, each a random walk of seven dimensions,
in a replay buffer of zarr. Each measurement is a process of its own, which finds the columns
decoded. "peak" is the highest anonymous resident memory (RssAnon) of readings that are taken every
few milliseconds; "start" is that of the process before it opens the dataset. Seconds of the
processor stand beside those of the clock, which counts what else runs. Rows are saved one by one;
the same command again goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import oatkit
from benchmarks.data_memory import rss_anon_mb
from benchmarks.record import read_results, write_result

NAME = "fit_streams"
SEED = 0
FRAMES = (10_000_000, 1_000_000)
FRAMES_PER_EPISODE = 1000
ACTION_DIM = 7
HORIZON = 16
JOBS = ("statistics", "klt", "fast")
EPISODES_AT_ONCE = 500


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", nargs="+", type=int, default=list(FRAMES))
    args = parser.parse_args(argv)
    settings = {
        "horizon": HORIZON,
        "action_dim": ACTION_DIM,
        "frames_per_episode": FRAMES_PER_EPISODE,
    }
    for frames in args.frames:
        missing = [job for job in JOBS if job not in read_results(NAME).get(str(frames), {})]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, cache = Path(folder) / f"{frames}.zarr", Path(folder) / "cache"
            write_dataset(path, frames)
            for job in ("open", *missing):  # the columns are decoded when it is first opened
                took = in_new_process(job, path, cache)
                print(frames, job, took, flush=True)
                results = read_results(NAME)  # another process may have added to them
                results[str(frames)] = {**results.get(str(frames), {}), job: took}
                write_result(NAME, seed=SEED, settings=settings, results=results)


def write_dataset(path: Path, frames: int) -> None:
    """A replay buffer of random walks."""
    import zarr

    rng, episodes = np.random.default_rng(SEED), frames // FRAMES_PER_EPISODE
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    chunks = (EPISODES_AT_ONCE * FRAMES_PER_EPISODE, ACTION_DIM)
    how: dict[str, Any] = {"dtype": "float32", "compressors": None}
    actions = root.create_array("data/action", shape=(frames, ACTION_DIM), chunks=chunks, **how)
    for start in range(0, episodes, EPISODES_AT_ONCE):
        count = min(EPISODES_AT_ONCE, episodes - start)
        steps = rng.normal(size=(count, FRAMES_PER_EPISODE, ACTION_DIM)).astype(np.float32)
        rows = np.sin(0.05 * np.cumsum(steps, axis=1)).reshape(-1, ACTION_DIM)
        first = start * FRAMES_PER_EPISODE
        actions[first : first + len(rows)] = rows
    ends = FRAMES_PER_EPISODE * np.arange(1, episodes + 1)
    root.create_array("meta/episode_ends", shape=ends.shape, dtype="int64")[:] = ends


def in_new_process(job: str, path: Path, cache: Path) -> dict[str, float]:
    command = [sys.executable, "-m", f"benchmarks.{NAME}", "--measure", job, str(path), str(cache)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def measure(job: str, path: Path, cache: Path) -> dict[str, float]:
    """Seconds and memory of a job."""
    import torch  # noqa: F401  a training process has it in memory too

    readings = [rss_anon_mb()]
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.005):
            readings.append(rss_anon_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, processor = time.perf_counter(), time.process_time()
    dataset = oatkit.open_dataset(path, cache_dir=cache, fps=20)
    if job == "statistics":
        dataset.action_statistics()
    elif job != "open":
        oatkit.train_tokenizer(dataset, job, horizon=HORIZON)
    took = time.perf_counter() - wall, time.process_time() - processor
    is_done.set()
    watcher.join()
    return {
        "wall_s": round(took[0], 1),
        "processor_s": round(took[1], 1),
        "start_mb": round(readings[0], 1),
        "peak_mb": round(max(readings), 1),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
    else:
        main()
