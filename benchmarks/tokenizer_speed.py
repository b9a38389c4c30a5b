"""How fast the paper's tokenizer trains, encodes and decodes, against the machine's matmul rate.

    python -m benchmarks.tokenizer_speed

FLOPs are counted by torch on the real training step (forward, backward, clipping, AdamW); the
matmul rate is the best of several 2048 x 2048 products in the same process with the same threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import write_result
from oatkit.nn.random import SampleRandom, sample_keys
from oatkit.tokenizers import make_codec, make_config
from oatkit.tokenizers.codec import LearnedCodec

SEED = 0
HORIZON, ACTION_DIM, BATCH_SIZE = 32, 7, 512
KINDS = ("oat", "oat-pow2", "quest", "acodec")
REPEATS = 5


def main() -> None:
    torch.manual_seed(SEED)
    results = {}
    for kind in KINDS:
        before = matmul_gflops()
        results[kind] = measure(kind)
        rate = max(before, matmul_gflops())
        results[kind]["matmul_gflops"] = round(rate, 1)
        results[kind]["share_of_matmul"] = round(results[kind]["train_gflops"] / rate, 3)
    settings = {
        "preset": "paper",
        "chunk": [HORIZON, ACTION_DIM],
        "batch_size": BATCH_SIZE,
        "threads": torch.get_num_threads(),
    }
    write_result("tokenizer_speed", seed=SEED, settings=settings, results=results)


def matmul_gflops() -> float:
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = min(seconds(lambda: a @ b) for _ in range(10))
    return 2 * 2048**3 / best / 1e9


def measure(kind: str) -> dict[str, float]:
    codec = make_codec(make_config(kind, horizon=HORIZON, action_dim=ACTION_DIM))
    assert isinstance(codec, LearnedCodec)
    optimizer = torch.optim.AdamW(codec.parameters(), 5e-5, fused=True)
    actions = torch.rand(BATCH_SIZE, HORIZON, ACTION_DIM) * 2 - 1
    keys = sample_keys(SEED, 0, torch.arange(BATCH_SIZE))

    def step() -> None:
        torch.autograd.backward(codec.loss(actions, SampleRandom(keys)))
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    with FlopCounterMode(display=False) as counter:
        step()
    flops = counter.get_total_flops()
    step_s = median(seconds(step) for _ in range(REPEATS))
    with torch.inference_mode():
        tokens = codec.encode(actions)
        encode_s = median(seconds(lambda: codec.encode(actions)) for _ in range(REPEATS))
        decode_s = median(seconds(lambda: codec.decode(tokens)) for _ in range(REPEATS))
    return {
        "parameters": sum(p.numel() for p in codec.parameters()),
        "train_chunks_per_s": round(BATCH_SIZE / step_s, 1),
        "train_gflops": round(flops / step_s / 1e9, 1),
        "encode_chunks_per_s": round(BATCH_SIZE / encode_s, 1),
        "decode_chunks_per_s": round(BATCH_SIZE / decode_s, 1),
    }


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
