"""How fast `fast` encodes and decodes a batch, against a loop over its chunks.

    python -m benchmarks.fast_speed

`fast` is fitted on smooth random walks; numbers are medians of repeated runs in one process.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import torch

from benchmarks.record import write_result
from benchmarks.timing import Job, seconds
from oatkit.tokenizers.fast import Fast, FastConfig

SEED = 0
HORIZON, ACTION_DIM, NUM_CHUNKS = 32, 7, 2048
REPEATS = 5


def main() -> None:
    rng = np.random.default_rng(SEED)
    walks = rng.normal(size=(NUM_CHUNKS, HORIZON, ACTION_DIM)).cumsum(axis=1) / 12
    chunks = torch.from_numpy(walks.astype(np.float32).clip(-1, 1))
    codec = Fast(FastConfig(HORIZON, ACTION_DIM))
    codec.fit(lambda: iter([chunks]))
    tokens = codec.encode(chunks)
    one_by_one = [codec.encode(chunk[None]) for chunk in chunks]
    results = {
        "encode_batch_chunks_per_s": rate(lambda: codec.encode(chunks)),
        "encode_loop_chunks_per_s": rate(lambda: [codec.encode(c[None]) for c in chunks]),
        "decode_batch_chunks_per_s": rate(lambda: codec.decode(tokens)),
        "decode_loop_chunks_per_s": rate(lambda: [codec.decode(t) for t in one_by_one]),
        "mean_tokens": round(float(tokens.lengths.double().mean()), 1),
    }
    settings = {"chunk": [HORIZON, ACTION_DIM], "chunks": NUM_CHUNKS}
    write_result("fast_speed", seed=SEED, settings=settings, results=results)


def rate(work: Job) -> int:
    """Chunks a second."""
    return round(NUM_CHUNKS / median(seconds(work) for _ in range(REPEATS)))


if __name__ == "__main__":
    main()
