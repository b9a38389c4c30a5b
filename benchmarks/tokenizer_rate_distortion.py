"""Rate and distortion of every kind on held-out episodes: the table of the paper's appendix.

    python -m benchmarks.tokenizer_rate_distortion [--only metaworld/oat ...]
        [--steps N] [--minutes 10] [--pusht PATH] [--cr5 PATH] [--robosuite PATH]

MetaWorld demonstrations (four tasks, 50 each) are made if they are not there. PushT, CR5 and
robosuite's Sawyer are measured if their paths are given. A row is trained for the steps (the
preset's by default), or for as many as fit into the minutes. Rows are saved one by one: the same
command again resumes, also within a row, and skips finished rows; `--again` measures them again.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import oatkit
from benchmarks.closed_loop import folder_name, planned_steps
from benchmarks.record import read_results, write_result
from oatkit.data import Dataset, Normalizer
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.tokenizer_training import (
    normalized_chunks,
    prepare_tokenizer,
    train_tokenizer,
)
from oatkit.measure.encoded_chunks import decode_prefix, encode_chunks
from oatkit.measure.gaussian import eigenvalues, gaussian_distortion
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.oat import Oat

NAME = "tokenizer_rate_distortion"
SEED = 0
OUT = Path("out/bench")
PRESET = "small"
LONG_STEPS = 11_000
NUM_TOKENS = 16
SPLITS = (1, 2, 4, 8)
"""Numbers of learned tokens before an analytic tail."""


@dataclass(frozen=True)
class Row:
    """One tokenizer of the table."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    is_long: bool = False
    """Whether it is trained for `LONG_STEPS`, whatever the minutes."""


ROWS = {
    "klt": Row("klt"),
    "klt, scalar cells": Row("klt", {"cells": "scalar"}),
    "bin": Row("bin"),
    "fast, fitted": Row("fast"),
    "oat": Row("oat"),
    "oat-pow2": Row("oat-pow2"),
    "quest": Row("quest"),
    "acodec": Row("acodec"),
    "oat, 4 + 12 refined": Row("oat", {"num_tokens": 4, "refine": 12}),
    "oat, no nesting": Row("oat", {"nested_dropout": False}),
    "oat, long": Row("oat", is_long=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--pusht", type=Path)
    parser.add_argument("--cr5", type=Path)
    parser.add_argument("--robosuite", type=Path)
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    datasets = {"metaworld": metaworld(), "pusht": args.pusht, "cr5": args.cr5}
    datasets["robosuite"] = args.robosuite
    for data, path in datasets.items():
        for name in (*ROWS, "splits") if path is not None else ():
            if not args.only or f"{data}/{name}" in args.only:
                measure_once(data, path, name, args)


def metaworld() -> Path:
    """Folder with demonstrations of the paper's four tasks, 50 each."""
    folder = OUT / "data" / "metaworld"
    if not folder.exists():
        make_metaworld(folder, Demonstrations(seed=SEED), show_progress=True)
    return folder


def measure_once(data: str, path: Path, name: str, args: argparse.Namespace) -> None:
    """Measure a row unless it is there, and save it with the others."""
    if name in read_results(NAME).get(data, {}) and not args.again:
        print(f"{data}/{name} is finished")
        return
    print(f"{data}/{name}", flush=True)
    if name == "splits":
        row: Any = measure_splits(data, path)
    else:
        row = measure_row(data, path, name, args)
    results = read_results(NAME)  # another process may have added to them
    found = {**results.get(data, {}), name: row}
    settings = {"preset": PRESET, "held_out": 0.1, "horizon": 32, "num_tokens": NUM_TOKENS}
    write_result(NAME, seed=SEED, settings=settings, results={**results, data: found})


def measure_row(data: str, path: Path, name: str, args: argparse.Namespace) -> dict[str, Any]:
    row = ROWS[name]
    dataset = oatkit.open_dataset(path)
    out = OUT / data / folder_name(name)
    train = {"seed": SEED} if args.steps is None else {"seed": SEED, "steps": args.steps}
    how = {"preset": PRESET, **row.options}
    if row.is_long:
        steps = {"steps": LONG_STEPS}
    else:
        training = prepare_tokenizer(dataset, row.kind, train=train, **how)
        steps = planned_steps(training, out, args.minutes)
    start = time.perf_counter()
    train |= steps
    tokenizer = train_tokenizer(dataset, row.kind, out, train=train, show_progress=True, **how)
    seconds = time.perf_counter() - start
    codec = tokenizer.codec
    assert isinstance(codec, nn.Module)
    return {
        "parameters": sum(p.numel() for p in codec.parameters()),
        "steps": steps.get("steps", 0),
        "seconds": round(seconds, 1),
        "budgets": measure_budgets(tokenizer, path),
    }


def measure_budgets(tokenizer: ActionTokenizer, path: Path) -> list[dict[str, float]]:
    """Errors of all budgets in the same normalized units, whatever normalizer the kind uses."""
    train_set, held_out = oatkit.open_dataset(path).split(0.1, seed=0)
    scale = Normalizer.fit(train_set.action_statistics(), "min_max").scale
    encoded = encode_chunks(tokenizer, held_out)
    actions_BTA = encoded.actions.numpy()
    spectrum = eigenvalues((actions_BTA / scale).astype(np.float32))
    rows = []
    for budget in tokenizer.budgets:
        kept = encoded.tokens.prefix(budget)
        raw_BTA = decode_prefix(tokenizer, kept).double().numpy() - actions_BTA
        mean_tokens = float(kept.lengths.double().mean())
        bits = mean_tokens * math.log2(tokenizer.vocab_size)
        rows.append(
            {
                "budget": budget,
                "tokens": mean_tokens,
                "bits": bits,
                "mse": float(np.square(raw_BTA).mean()),
                "mse_normalized": float(np.square(raw_BTA / scale).mean()),
                "mse_normalized_without_padding": float(
                    np.square(raw_BTA / scale)[~encoded.is_pad].mean()
                ),
                "gaussian_mse_normalized": gaussian_distortion(spectrum, bits),
            }
        )
    return rows


def measure_splits(data: str, path: Path) -> dict[str, list[float]]:
    """Normalized error at each budget when a tail follows the first tokens of the trained `oat`."""
    folder = next(f for f in (OUT / data / "oat-long", OUT / data / "oat") if f.exists())
    tokenizer = load_tokenizer(folder)
    train_set, held_out = oatkit.open_dataset(path).split(0.1, seed=0)
    codec = tokenizer.codec
    assert isinstance(codec, Oat)
    found = {}
    for count in SPLITS:
        print(f"{data}: {count} learned tokens, then tables", flush=True)
        tail = fit_tail(tokenizer, train_set, count)
        found[str(count)] = tail_errors(tokenizer, tail, held_out, count)
    return found


def fit_tail(tokenizer: ActionTokenizer, train_set: Dataset, count: int) -> Klt:
    """Tables for what the first tokens leave."""
    tail = Klt(KltConfig(tokenizer.horizon, tokenizer.action_dim, num_tokens=NUM_TOKENS - count))
    tail.fit(
        lambda: (
            residual(tokenizer, block, count) for block in normalized_chunks(tokenizer, train_set)
        )
    )
    return tail


@torch.inference_mode()
def residual(tokenizer: ActionTokenizer, chunks_BTA: Tensor, count: int) -> Tensor:
    """What the first tokens leave of normalized chunks."""
    codec = tokenizer.codec
    return chunks_BTA - codec.decode(codec.encode(chunks_BTA).prefix(count))


def tail_errors(
    tokenizer: ActionTokenizer, tail: Klt, held_out: Dataset, count: int
) -> list[float]:
    """Normalized errors at budgets 1, 2, 4, 8 and 16."""
    chunks_BTA = torch.cat(list(normalized_chunks(tokenizer, held_out)))
    residual_BTA = residual(tokenizer, chunks_BTA, count)
    tokens = tail.encode(residual_BTA)
    errors = []
    for budget in (1, 2, 4, 8, 16):
        if budget <= count:
            error_BTA = residual(tokenizer, chunks_BTA, budget)
        else:
            error_BTA = residual_BTA - tail.decode(tokens.prefix(budget - count))
        errors.append(float(np.square(error_BTA.double().numpy()).mean()))
    return errors


if __name__ == "__main__":
    main()
