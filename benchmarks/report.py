"""Writes `docs/results.md` from `benchmarks/results/*.json`, so that no number is typed.

python -m benchmarks.report
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "results.md"

INTRODUCTION = """\
# Results

Written by `python -m benchmarks.report` from `benchmarks/results/`; `make bench` measures anew.
Each JSON has the commit, the seed, the versions and the machine.
"""


def main() -> None:
    PAGE.write_text(render())
    print(f"wrote {PAGE}")


def render() -> str:
    return "\n".join(
        [INTRODUCTION, data_memory(load("data_memory")), sampling(), tokenizer_speed()]
    )


def load(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def data_memory(record: dict[str, Any]) -> str:
    runs = {k: v for k, v in record["results"].items() if isinstance(v, dict)}
    rows = [
        f"| {name} | {run['start_mb']} | {run['sampling_mb']} | {run['peak_mb']} |"
        for name, run in runs.items()
    ]
    growth = max(v for v in record["results"].values() if isinstance(v, float))
    return "\n".join(
        [
            "## Memory while opening and sampling a dataset\n",
            "Anonymous resident memory (RssAnon, MB) of a process that has torch imported, opens a",
            "LeRobot v3.0 dataset, computes statistics and draws "
            f"{record['settings']['batches']} batches of {record['settings']['batch_size']}",
            'chunks. "cold" decodes the dataset into an empty cache, "warm" finds it there.\n',
            "| dataset | after import | while sampling | peak |",
            "|---|---|---|---|",
            *rows,
            "",
            f"From 100 thousand to a million frames it grows by at most {100 * growth:.1f} %; the "
            "target is 10 %.",
            "(`benchmarks/data_memory.py`)\n",
        ]
    )


def sampling() -> str:
    record = load("data_sampling")
    result, chunk = record["results"], record["settings"]["chunk"]
    return "\n".join(
        [
            "## Drawing random batches of chunks\n",
            f"Batches of {record['settings']['batch_size']} chunks of {chunk[0]} x {chunk[1]} with "
            "the state, on one core:",
            f"{result['chunks_per_s']:,} chunks a second (median of 7 runs, "
            f"{result['lowest']:,} to {result['highest']:,}); the target is 100,000.",
            "(`benchmarks/data_sampling.py`)\n",
        ]
    )


def tokenizer_speed() -> str:
    record = load("tokenizer_speed")
    rows = [
        f"| `{kind}` | {r['parameters'] / 1e6:.1f}M | {r['train_chunks_per_s']} | "
        f"{r['encode_chunks_per_s']} | {r['decode_chunks_per_s']} | {r['train_gflops']} | "
        f"{r['matmul_gflops']} | {r['share_of_matmul']:.2f} |"
        for kind, r in record["results"].items()
    ]
    return "\n".join(
        [
            "## Speed of the learned tokenizers at the paper's size\n",
            f"Batch {record['settings']['batch_size']}, chunks of "
            f"{' x '.join(map(str, record['settings']['chunk']))}, "
            f"{record['settings']['threads']} threads. The share is that of the training step in "
            "the best 2048 x 2048",
            "product of the same process, float32; the target is one half.\n",
            "| kind | parameters | train/s | encode/s | decode/s | GFLOP/s | matmul | share |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "(`benchmarks/tokenizer_speed.py`)\n",
        ]
    )


if __name__ == "__main__":
    main()
