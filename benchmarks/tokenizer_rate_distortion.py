"""Rate and distortion of every kind on held-out episodes: the table of the paper's appendix.

    python -m benchmarks.tokenizer_rate_distortion [--only metaworld/oat ...]
        [--scale small] [--steps N] [--pusht PATH] [--cr5 PATH] [--robosuite PATH] [--panda PATH]

Rows are those of `oatkit reproduce rate-distortion`, made in the same way, and measured in units
that all kinds share. MetaWorld demonstrations (four tasks, 50 each) are made if they are not there.
PushT, CR5, robosuite's Sawyer and a folder of its Panda files are measured if their paths are
given. Rows are saved one by one:
the same command again resumes, also within a row, and skips finished rows; `--again` measures them
again.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import oatkit
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.timing import trained_seconds
from oatkit.data import Dataset, Normalizer
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_scales import SCALES, Place
from oatkit.jobs.row_runs import RowRuns
from oatkit.jobs.tokenizer_training import normalized_chunks
from oatkit.measure.encoded_chunks import chunks_to_measure, decode_prefix, encode_chunks
from oatkit.measure.gaussian import (
    eigenvalues,
    fitted_gaussian_distortion,
    gaussian_distortion,
)
from oatkit.measure.tokenizer_metrics import slot_entropies
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.oat import Oat

NAME = "tokenizer_rate_distortion"
SEED = 0
OUT = Path("out/bench")
REPRODUCTION = OUT / "reproduction"
"""Where rows of the paper's tables are made, as `oatkit reproduce --out` has it."""
TABLE = paper_table("rate-distortion")
NUM_TOKENS = 16
HELD_OUT = 0.1
"""Share of the episodes that errors are measured on."""
SPLITS = (1, 2, 4, 8)
"""Numbers of learned tokens before an analytic tail."""
FITTED = "fast, fitted"
"""What `fast` is called here: the paper's was fitted on other data."""
ROWS = {FITTED if name == "fast" else name: row for name, row in TABLE.all_rows.items()}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", default="small", choices=["tiny", "small"])
    parser.add_argument("--steps", type=int, help="training steps; the preset's by default")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--metaworld", type=Path, help="other demonstrations than the default ones")
    parser.add_argument("--pusht", type=Path)
    parser.add_argument("--cr5", type=Path)
    parser.add_argument("--robosuite", type=Path)
    parser.add_argument("--panda", type=Path)
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args(argv)
    keep_apart(args.scale == "tiny")
    datasets = {"metaworld": args.metaworld or metaworld(), "pusht": args.pusht, "cr5": args.cr5}
    datasets |= {"robosuite": args.robosuite, "panda": args.panda}
    runs = row_runs(args.scale, args.steps)
    for data, path in datasets.items():
        for name in (*ROWS, "splits") if path is not None else ():
            if not args.only or f"{data}/{name}" in args.only:
                measure_once(runs, Place(data, path), name, args.again)


def row_runs(scale: str = "small", steps: int | None = None) -> RowRuns:
    """How the rows are made."""
    size = SCALES[scale]
    if steps is not None:
        size = replace(size, tokenizer={**size.tokenizer, "steps": steps})
    return RowRuns(size, size.preset(TABLE), REPRODUCTION / scale, show_progress=True)


def tokenizer_dir(data: str, name: str) -> Path:
    """Where the tokenizer of a row of the small scale is, for the benchmarks that use it."""
    return row_runs().tokenizer_dir(ROWS[name], Place(data, Path()))


def metaworld() -> Path:
    """Folder with demonstrations of the paper's four tasks, 50 each."""
    folder = OUT / "data" / "metaworld"
    if not folder.exists():
        make_metaworld(folder, Demonstrations(seed=SEED), show_progress=True)
    return folder


def measure_once(runs: RowRuns, place: Place, name: str, again: bool) -> None:
    """Measure a row unless it is there, and save it with the others."""
    data = place.name
    before = read_results(NAME).get(data, {}).get(name)
    if before is not None and not again:
        asked = 0 if name == "splits" else runs.tokenizer_steps(ROWS[name]) or 0
        steps = before.get("steps", 0)
        other = "" if steps == asked else f" with {steps} steps, not {asked}"
        print(f"{data}/{name} is finished{other}; --again measures it again")
        return
    print(f"{data}/{name}", flush=True)
    row: Any = measure_splits(runs, place) if name == "splits" else measure_row(runs, place, name)
    results = read_results(NAME)  # another process may have added to them
    found = {**results.get(data, {}), name: row}
    write_result(NAME, seed=SEED, settings={}, results={**results, data: found})


def measure_row(runs: RowRuns, place: Place, name: str) -> dict[str, Any]:
    start = time.perf_counter()
    folder = runs.tokenizer(ROWS[name], place)
    fitting_s = round(time.perf_counter() - start, 1)
    tokenizer = load_tokenizer(folder)
    training_s = trained_seconds(folder, tokenizer)  # perhaps before, by a row of policies
    codec = tokenizer.codec
    assert isinstance(codec, nn.Module)
    return {
        "parameters": sum(p.numel() for p in codec.parameters()),
        "steps": tokenizer.extras.get("train", {}).get("steps", 0),
        "settings": {
            **{"preset": runs.preset, "held_out": HELD_OUT, "horizon": place.horizon},
            "tokenizer": dict(ROWS[name].options),
        },
        "seconds": fitting_s if training_s is None else training_s,
        "budgets": measure_budgets(tokenizer, place.data),
    }


def measure_budgets(tokenizer: ActionTokenizer, path: Path) -> list[dict[str, float]]:
    """Errors of all budgets in the same normalized units, whatever normalizer the kind uses."""
    train_set, held_out = oatkit.open_dataset(path).split(HELD_OUT, seed=0)
    scale = Normalizer.fit(train_set.action_statistics(), "min_max").scale
    encoded = encode_chunks(tokenizer, held_out)
    actions_BTA = encoded.actions.numpy()
    train_BTA, *_ = chunks_to_measure(train_set, tokenizer.horizon)
    train_BTA = (train_BTA / scale).astype(np.float32)
    held_out_BTA = (actions_BTA / scale).astype(np.float32)
    spectrum, entropies = eigenvalues(held_out_BTA), slot_entropies(encoded.tokens)
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
                "entropy_bits": sum(entropies[:budget]),
                "mse": float(np.square(raw_BTA).mean()),
                "mse_normalized": float(np.square(raw_BTA / scale).mean()),
                "mse_normalized_without_padding": float(
                    np.square(raw_BTA / scale)[~encoded.is_pad].mean()
                ),
                "gaussian_mse_normalized": gaussian_distortion(spectrum, bits),
                "fitted_gaussian_mse_normalized": fitted_gaussian_distortion(
                    train_BTA, held_out_BTA, bits
                ),
            }
        )
    return rows


def normalized_errors(
    tokenizer: ActionTokenizer, dataset: Dataset, scale: NDArray[np.float64]
) -> list[float]:
    """Mean squared error of each budget in units that the scale makes one."""
    encoded = encode_chunks(tokenizer, dataset)
    decoded = (decode_prefix(tokenizer, encoded.tokens.prefix(k)) for k in tokenizer.budgets)
    errors = ((x_BTA.double().numpy() - encoded.actions.numpy()) / scale for x_BTA in decoded)
    return [float(np.square(error_BTA).mean()) for error_BTA in errors]


def measure_splits(runs: RowRuns, place: Place) -> dict[str, list[float]]:
    """Normalized error at each budget when a tail follows the first tokens of the trained `oat`."""
    trained = (runs.tokenizer_dir(ROWS[name], place) for name in ("oat, long", "oat"))
    tokenizer = load_tokenizer(next(folder for folder in trained if folder.exists()))
    train_set, held_out = place.open().split(HELD_OUT, seed=0)
    assert isinstance(tokenizer.codec, Oat)
    found = {}
    for count in SPLITS:
        print(f"{place.name}: {count} learned tokens, then tables", flush=True)
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
