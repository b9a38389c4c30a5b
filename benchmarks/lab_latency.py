"""How long the prefix lab takes to answer, over HTTP on this machine, for the `small` tokenizers.

    python -m benchmarks.lab_latency

It uses the MetaWorld tokenizers that `benchmarks.tokenizer_rate_distortion` leaves in `out/bench`.
Dragging asks for a chunk, encoded and decoded at every budget, so that the budget slider needs no
further request. An edit asks for one sequence, decoded at every budget. The heat map is loaded
after a pause. The elapsed time is longer on a machine with other work; the time of the processor is
given beside it.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch

from benchmarks.record import write_result
from benchmarks.timing import Job, seconds
from benchmarks.tokenizer_rate_distortion import FITTED, metaworld, tokenizer_dir
from oatkit.data import open_dataset
from oatkit.lab import Lab
from oatkit.lab.app import serving
from oatkit.tokenizers import load_tokenizer

SEED = 0
KINDS = ("oat", "oat-pow2", "quest", "fast", "bin", "klt")
REPEATS = 40
TARGET_MS = 50


def main() -> None:
    torch.set_num_threads(2)
    dataset = open_dataset(metaworld())
    rows = {kind: FITTED if kind == "fast" else kind for kind in KINDS}
    tokenizers = {
        name: load_tokenizer(tokenizer_dir("metaworld", row)) for name, row in rows.items()
    }
    results: dict[str, Any] = {"all six, drag": measure_drag(Lab(tokenizers, dataset))}
    for name, tokenizer in tokenizers.items():
        lab = Lab({name: tokenizer}, dataset)
        results[f"{name}, drag"] = measure_drag(lab)
        results[f"{name}, edit"] = measure_tokens(lab, name, "decode")
        results[f"{name}, heat map"] = measure_tokens(lab, name, "influence")
    settings = {
        "target_ms": TARGET_MS,
        "horizon": next(iter(tokenizers.values())).horizon,
        "repeats": REPEATS,
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 1),
        "niceness": os.nice(0),
    }
    write_result("lab_latency", seed=SEED, settings=settings, results=results)


def measure_drag(lab: Lab) -> dict[str, float]:
    rng = np.random.default_rng(SEED)
    length = int(lab.dataset.episode_lengths[0])
    with serving(lab) as url:
        ask = _connect(url)
        return timed(lambda: ask(f"/api/chunk?episode=0&frame={rng.integers(length)}"))


def measure_tokens(lab: Lab, name: str, what: str) -> dict[str, float]:
    rng = np.random.default_rng(SEED)
    ids = lab.chunk(0, 0)["encoded"][0]["ids"]
    size = lab.tokenizers[name].vocab_size

    def changed() -> list[int]:
        return [*ids[:-1], int(rng.integers(size))]

    with serving(lab) as url:
        ask = _connect(url)
        return timed(lambda: ask(f"/api/{what}", json.dumps({"name": name, "ids": changed()})))


def timed(work: Job) -> dict[str, float]:
    """Milliseconds of one answer: median and best elapsed time, and mean time of the processor."""
    for _ in range(5):
        work()
    cpu = time.process_time()
    elapsed = [1e3 * seconds(work) for _ in range(REPEATS)]
    cpu_ms = 1e3 * (time.process_time() - cpu) / REPEATS
    return {
        "median_ms": round(median(elapsed), 1),
        "best_ms": round(min(elapsed), 1),
        "cpu_ms": round(cpu_ms, 1),
    }


def _connect(url: str) -> Callable[..., bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def ask(path: str, body: str | None = None) -> bytes:
        connection.request("GET" if body is None else "POST", path, body=body)
        with connection.getresponse() as response:
            answer = response.read()
            assert response.status == 200, answer
            return answer

    return ask


if __name__ == "__main__":
    main()
