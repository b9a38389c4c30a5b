"""How fast the paper's tokenizer trains, encodes and decodes, against the machine's matmul rate.

    python -m benchmarks.tokenizer_speed

FLOPs are counted by torch on the real training step (forward, backward, clipping, AdamW); the
matmul rate is the best of several 2048 x 2048 products in the same process with the same threads.
The last row has the width and depth of the first public OAT code, whose speed is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import write_result
from oatkit.nn.random import SampleRandom, sample_keys
from oatkit.tokenizers import make_codec, make_config
from oatkit.tokenizers.codec import LearnedCodec

SEED = 0
HORIZON, ACTION_DIM = 32, 7
REPEATS = 5
SIZES: dict[str, dict[str, Any]] = {
    "oat": {},
    "oat-pow2": {},
    "quest": {},
    "acodec": {},
    "oat, 2 + 4 layers, 8 tokens": {"num_layers": 2, "decoder_layers": 4, "num_tokens": 8},
}
BATCH_SIZES = {"oat, 2 + 4 layers, 8 tokens": 256}


def main() -> None:
    torch.manual_seed(SEED)
    results = {}
    for name, size in SIZES.items():
        before = matmul_gflops()
        found = measure(name.split(",")[0], size, BATCH_SIZES.get(name, 512))
        rate = max(before, matmul_gflops())
        shares = {
            f"{job}_share": round(found[f"{job}_gflops"] / rate, 3)
            for job in ("train", "encode", "decode")
        }
        results[name] = {**found, "matmul_gflops": round(rate, 1), **shares}
    settings = {
        "preset": "paper",
        "chunk": [HORIZON, ACTION_DIM],
        "threads": torch.get_num_threads(),
    }
    write_result("tokenizer_speed", seed=SEED, settings=settings, results=results)


def matmul_gflops() -> float:
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = min(seconds(lambda: a @ b) for _ in range(10))
    return 2 * 2048**3 / best / 1e9


def measure(kind: str, size: dict[str, Any], batch_size: int) -> dict[str, float]:
    codec = make_codec(make_config(kind, horizon=HORIZON, action_dim=ACTION_DIM, **size))
    assert isinstance(codec, LearnedCodec)
    optimizer = torch.optim.AdamW(codec.parameters(), 5e-5, fused=True)
    actions = torch.rand(batch_size, HORIZON, ACTION_DIM) * 2 - 1
    keys = sample_keys(SEED, 0, torch.arange(batch_size))

    def step() -> None:
        torch.autograd.backward(codec.loss(actions, SampleRandom(keys)))
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    found: dict[str, float] = {"batch_size": batch_size}
    found["parameters"] = sum(p.numel() for p in codec.parameters())
    found |= speed("train", step, batch_size)
    with torch.no_grad():  # torch cannot count under inference_mode
        tokens = codec.encode(actions)
        found |= speed("encode", lambda: codec.encode(actions), batch_size)
        found |= speed("decode", lambda: codec.decode(tokens), batch_size)
        one = codec.encode(actions[:1])
        found["encode_one_ms"] = 1e3 * speed_of_one(lambda: codec.encode(actions[:1]))
        found["decode_one_ms"] = 1e3 * speed_of_one(lambda: codec.decode(one))
    return {name: round(value, 2) for name, value in found.items()}


def speed(job: str, work: Callable[[], object], batch_size: int) -> dict[str, float]:
    with FlopCounterMode(display=False) as counter:
        work()
    taken = median(seconds(work) for _ in range(REPEATS))
    return {
        f"{job}_chunks_per_s": batch_size / taken,
        f"{job}_gflops": counter.get_total_flops() / taken / 1e9,
    }


def speed_of_one(work: Callable[[], object]) -> float:
    return median(seconds(work) for _ in range(50))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
