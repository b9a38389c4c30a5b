"""Time, size, memory and use of the vocabulary of `klt` on 32 steps of 26 dimensions.

    python -m benchmarks.klt_speed
    python -m benchmarks.klt_speed widest     # the artifact of 34 dimensions alone

Chunks have the shape of a humanoid's and are smooth and random: every dimension is a mixture of a
few slow waves. Seconds of the processor, of all threads together, stand beside those of the clock,
which counts what else runs.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.record import read_results, write_result
from oatkit.data import Normalizer
from oatkit.data.statistics import compute_statistics
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.klt_paths import NUM_GROUPS

NAME = "klt_speed"
SEED = 0
THREADS = 2
HORIZON, ACTION_DIM = 32, 26
WIDEST = 34
"""Action dimensions of the artifact whose size is bounded."""
NUM_WAVES = 12
CHUNKS = 32_768
ENCODED = 4096
STREAMED = (100_000, 1_000_000)
CHUNKS_PER_BLOCK = 4096


def main() -> None:
    torch.set_num_threads(THREADS)
    codec, fitting = fitted()
    results = {
        **widest(),
        "fit": fitting,
        "encode": encoding_speed(codec),
        "encode_most_paths": encoding_speed(with_paths(codec, NUM_GROUPS)),
        **use_of_vocabulary(codec),
        **artifact(codec),
        "peak_mb": {str(count): peak_in_new_process(count) for count in STREAMED},
    }
    save(results)


def save(results: dict[str, Any]) -> None:
    settings = {"chunks": CHUNKS, "shape": [HORIZON, ACTION_DIM], "threads": THREADS}
    settings["encoded"] = ENCODED
    write_result(NAME, seed=SEED, settings=settings, results=results)


def widest() -> dict[str, Any]:
    """Size and opening of the artifact of the most dimensions."""
    codec, _ = fitted(WIDEST)
    return {"widest": {"action_dim": WIDEST, **artifact(codec)}}


def smooth_chunks(count: int, seed: int, action_dim: int = ACTION_DIM) -> Tensor:
    """(N, T, A), of waves that all dimensions share, with their own amplitudes and some noise."""
    generator = torch.Generator().manual_seed(seed)
    time_T = torch.arange(HORIZON) / HORIZON
    frequency_NW = 3 * torch.rand(count, NUM_WAVES, generator=generator)
    phase_NW = 2 * torch.pi * torch.rand(count, NUM_WAVES, generator=generator)
    waves_NTW = torch.sin(
        2 * torch.pi * frequency_NW[:, None] * time_T[:, None] + phase_NW[:, None]
    )
    mixing_WA = torch.randn(
        NUM_WAVES, action_dim, generator=torch.Generator().manual_seed(SEED)
    ) / torch.arange(1, NUM_WAVES + 1).view(-1, 1)
    noise_NTA = torch.randn(count, HORIZON, action_dim, generator=generator)
    return 0.3 * waves_NTW @ mixing_WA + 0.005 * noise_NTA


def fitted(action_dim: int = ACTION_DIM) -> tuple[Klt, dict[str, float]]:
    chunks = smooth_chunks(CHUNKS, SEED, action_dim)
    codec = Klt(KltConfig(HORIZON, action_dim))
    return codec, seconds_of(lambda: codec.fit(lambda: iter(torch.split(chunks, CHUNKS_PER_BLOCK))))


def with_paths(codec: Klt, paths: int) -> Klt:
    """The same tables, searched by another number of paths."""
    other = Klt(replace(codec.config, paths=paths))
    other.load_state_dict(codec.state_dict())
    return other


@torch.inference_mode()
def encoding_speed(codec: Klt) -> dict[str, float]:
    """The fastest of five times."""
    chunks = smooth_chunks(ENCODED, SEED + 1)
    codec.encode(chunks[:64])
    took = [seconds_of(lambda: codec.encode(chunks)) for _ in range(5)]
    return {
        "chunks_per_s": round(ENCODED / min(each["wall_s"] for each in took)),
        "chunks_per_processor_s": round(ENCODED / min(each["processor_s"] for each in took)),
    }


@torch.inference_mode()
def use_of_vocabulary(codec: Klt) -> dict[str, Any]:
    """Share of the vocabulary that new chunks use in each slot, and that random ids would use."""
    ids_BK = codec.encode(smooth_chunks(ENCODED, SEED + 1)).ids
    used = [len(set(ids_B.tolist())) / codec.vocab_size for ids_B in ids_BK.unbind(1)]
    at_random = 1 - (1 - 1 / codec.vocab_size) ** ENCODED
    return {"used": [round(share, 3) for share in used], "used_at_random": round(at_random, 3)}


def artifact(codec: Klt) -> dict[str, float]:
    """MB on the disk, and the fastest of five times to open it."""
    action_dim = codec.config.action_dim
    rows = smooth_chunks(1000, SEED, action_dim).flatten(0, 1).numpy()
    statistics = compute_statistics(lambda: [rows], dim=action_dim)
    facts = DataFacts(statistics, "", tuple(map(str, range(action_dim))), 30.0)
    tokenizer = ActionTokenizer(codec, Normalizer.fit(statistics, "min_max"), facts)
    with tempfile.TemporaryDirectory() as folder:
        path = tokenizer.save_pretrained(folder)
        size = sum(file.stat().st_size for file in path.iterdir())
        opened = min(seconds_of(lambda: load_tokenizer(path))["wall_s"] for _ in range(5))
    return {"artifact_mb": round(size / 1e6, 2), "open_ms": round(1e3 * opened, 1)}


def seconds_of(work: Callable[[], Any]) -> dict[str, float]:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {
        "wall_s": round(time.perf_counter() - wall, 4),
        "processor_s": round(time.process_time() - processor, 4),
    }


def peak_in_new_process(count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.klt_speed", str(count)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(ran.stdout))


def peak_mb(count: int) -> float:
    """Largest resident memory of fitting two tokens on so many chunks, which come in blocks."""
    base = smooth_chunks(CHUNKS_PER_BLOCK, SEED)

    def blocks() -> Iterator[Tensor]:
        for start in range(0, count, CHUNKS_PER_BLOCK):
            yield base[: count - start].clone()

    Klt(KltConfig(HORIZON, ACTION_DIM, num_tokens=2, cells="drawn")).fit(blocks)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["widest"]:
        save({**read_results(NAME), **widest()})
    elif len(sys.argv) == 2:
        print(json.dumps(peak_mb(int(sys.argv[1]))))
    else:
        main()
