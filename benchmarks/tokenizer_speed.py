"""How fast the paper's tokenizer trains, encodes and decodes, against the machine's matmul rate.

    python -m benchmarks.tokenizer_speed

FLOPs are counted by torch on the real training step (forward, backward, clipping, AdamW) in parts
of 64 chunks, as `accumulate` makes them; the matmul rate is the best of several 2048 x 2048
products in the same process with the same threads. The last rows have the width and depth of the
first public OAT code, whose speed is known: in parts, and in one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import write_result
from benchmarks.timing import Job, matmul_gflops, seconds
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.tokenizers import make_codec, make_config
from oatkit.tokenizers.codec import LearnedCodec, decode_in_parts, encode_in_parts

SEED = 0
HORIZON, ACTION_DIM = 32, 7
REPEATS = 3
PART = 64
FIRST_CODE = {"num_layers": 2, "decoder_layers": 4, "num_tokens": 8}


@dataclass(frozen=True)
class Row:
    """A tokenizer whose speed is measured.

    Attributes:
        kind: Kind of the tokenizer.
        size: Settings in which it differs from the paper's size.
        batch_size: Chunks in a batch.
        part: Chunks that are computed at once.
    """

    kind: str
    size: dict[str, int] = field(default_factory=dict)
    batch_size: int = 512
    part: int = PART


ROWS = {
    "oat": Row("oat"),
    "oat-pow2": Row("oat-pow2"),
    "quest": Row("quest"),
    "acodec": Row("acodec"),
    "oat, 2 + 4 layers, 8 tokens": Row("oat", FIRST_CODE, 256),
    "oat, 2 + 4 layers, 8 tokens, whole batch": Row("oat", FIRST_CODE, 256, 256),
}


def main() -> None:
    torch.manual_seed(SEED)
    results = {}
    for name, row in ROWS.items():
        before = matmul_gflops()
        found = measure(row)
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


def measure(row: Row) -> dict[str, float]:
    batch_size = row.batch_size
    config = make_config(row.kind, horizon=HORIZON, action_dim=ACTION_DIM, **row.size)
    codec = make_codec(config)
    assert isinstance(codec, LearnedCodec)
    optimizer = torch.optim.AdamW(codec.parameters(), 5e-5, fused=True)
    actions = torch.rand(batch_size, HORIZON, ACTION_DIM) * 2 - 1
    keys = sample_keys(SEED, 0, torch.arange(batch_size))

    def step() -> None:
        parts = (torch.split(batch, row.part) for batch in (actions, keys))
        for part, part_keys in zip(*parts, strict=True):
            loss = codec.loss(part, SampleRandom(part_keys)).total * len(part) / batch_size
            torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    found: dict[str, float] = {"batch_size": batch_size, "part": row.part}
    found["parameters"] = sum(p.numel() for p in codec.parameters())
    found |= speed("train", step, batch_size)
    with torch.no_grad():  # torch cannot count under inference_mode
        tokens = codec.encode(actions)
        found |= speed("encode", lambda: encode_in_parts(codec, actions), batch_size)
        found |= speed("decode", lambda: decode_in_parts(codec, tokens), batch_size)
        one = codec.encode(actions[:1])
        found["encode_one_ms"] = 1e3 * speed_of_one(lambda: codec.encode(actions[:1]))
        found["decode_one_ms"] = 1e3 * speed_of_one(lambda: codec.decode(one))
    return {name: round(value, 2) for name, value in found.items()}


def speed(job: str, work: Job, batch_size: int) -> dict[str, float]:
    with FlopCounterMode(display=False) as counter:
        work()
    taken = median(seconds(work) for _ in range(REPEATS))
    return {
        f"{job}_chunks_per_s": batch_size / taken,
        f"{job}_gflops": counter.get_total_flops() / taken / 1e9,
    }


def speed_of_one(work: Job) -> float:
    return median(seconds(work) for _ in range(50))


if __name__ == "__main__":
    main()
