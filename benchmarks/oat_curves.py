"""What `oat` lacks on a dataset: steps, size, or episodes; and `klt` with its correction beside it.

    python -m benchmarks.oat_curves [--pusht PATH] [--cr5 PATH] [--only "cr5/small, 8000 steps" ...]
        [--again]

A curve has a finished run at each of its points: the learning rate falls to zero within the steps.
Errors are those of training and of held-out episodes at every budget, in normalized units; where
the first falls and the second does not, episodes are missing, where both fall, steps are. Rows are
made by `oatkit.jobs.row_runs`, and share what the table of rate and distortion trains. They are
saved one by one: the same command again resumes, also within a row, and skips finished rows;
`--again` measures them again.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from torch import nn

import oatkit
from benchmarks.record import read_results, write_result
from benchmarks.timing import trained_seconds
from benchmarks.tokenizer_rate_distortion import HELD_OUT, metaworld, normalized_errors, row_runs
from oatkit.data import Normalizer
from oatkit.jobs.paper_tables import LARGE_OAT
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import Place
from oatkit.tokenizers import load_tokenizer

NAME = "oat_curves"


def _oat(steps: int, kind: str = "oat", **sizes: float) -> PolicyRow:
    return PolicyRow(kind, options={**LARGE_OAT, **sizes}, tokenizer_steps=steps)


LARGE: dict[str, Any] = {"width": 128, "num_layers": 4}
ROWS = {
    **{f"small, {steps} steps": _oat(steps) for steps in (500, 2000, 8000, 24000)},
    **{f"large, {steps} steps": _oat(steps, **LARGE) for steps in (2000, 8000)},
    "small, powers of two, 8000 steps": _oat(8000, "oat-pow2"),
    "small, dropout 0.1, 8000 steps": _oat(8000, dropout=0.1),
    "klt": PolicyRow("klt"),
    "klt, corrected": PolicyRow("klt", options={"correct": True}),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metaworld", type=Path, help="other demonstrations than the default ones")
    parser.add_argument("--pusht", type=Path)
    parser.add_argument("--cr5", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="rows, as cr5/klt")
    parser.add_argument("--again", action="store_true", help="measure finished rows again")
    args = parser.parse_args(argv)
    datasets = {"metaworld": args.metaworld or metaworld(), "pusht": args.pusht, "cr5": args.cr5}
    for data, path in datasets.items():
        for name in ROWS if path is not None else ():
            if args.only and f"{data}/{name}" not in args.only:
                continue
            if name in read_results(NAME).get(data, {}) and not args.again:
                print(f"{data}/{name} is finished")
                continue
            print(f"{data}/{name}", flush=True)
            add(data, name, measure(Place(data, path), ROWS[name]))


def add(data: str, name: str, row: dict[str, Any]) -> None:
    """Save a row with the others, in the order of `ROWS`."""
    results = read_results(NAME)  # another process may have added to them
    found = {**results.get(data, {}), name: row}
    results[data] = {known: found[known] for known in ROWS if known in found}
    settings = {"num_tokens": 16, "held_out": HELD_OUT, "preset": "small"}
    write_result(NAME, seed=0, settings=settings, results=results)


def measure(place: Place, row: PolicyRow) -> dict[str, Any]:
    """The errors of a row, whose tokenizer is made unless it is there, and what making it took."""
    begun = time.process_time()
    out = row_runs().tokenizer(row, place)
    fitting_s = round(time.process_time() - begun, 1)
    tokenizer = load_tokenizer(out)
    training_s = trained_seconds(out, tokenizer)  # a run may have been stopped and resumed
    assert isinstance(tokenizer.codec, nn.Module)
    train_set, held_out = oatkit.open_dataset(place.data).split(HELD_OUT, seed=0)
    scale = Normalizer.fit(train_set.action_statistics(), "min_max").scale
    return {
        "kind": row.kind,
        "steps": row.tokenizer_steps,
        "parameters": sum(p.numel() for p in tokenizer.codec.parameters()),
        "seconds": fitting_s if training_s is None else training_s,
        "threads": int(os.environ.get("OMP_NUM_THREADS", 0)) or os.cpu_count(),
        "budgets": list(tokenizer.budgets),
        "train": normalized_errors(tokenizer, train_set, scale),
        "held_out": normalized_errors(tokenizer, held_out, scale),
    }


if __name__ == "__main__":
    main()
