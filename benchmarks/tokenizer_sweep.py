"""The paper's ablations of the tokenizer on MetaWorld: FSQ levels, horizon against tokens, nesting.

    python -m benchmarks.tokenizer_sweep [--steps 400] [--preset small] [--data PATH]

It does what `oatkit tokenizer sweep` does; the same command again resumes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import oatkit
from benchmarks.record import keep_apart, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED, metaworld
from oatkit.jobs.tokenizer_ablations import sweep_tokenizer
from oatkit.types import SweepRow

NAME = "tokenizer_sweep"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="training steps of each row")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    args = parser.parse_args(argv)
    keep_apart(args.preset == "tiny")
    sweep = sweep_tokenizer(
        oatkit.open_dataset(args.data or metaworld()),
        OUT / NAME / f"{args.steps}-steps.json",
        preset=args.preset,
        train={"steps": args.steps, "seed": SEED},
        show_progress=True,
    )
    settings = {"steps": args.steps, "preset": args.preset}
    write_result(NAME, seed=SEED, settings=settings, results=[row_numbers(r) for r in sweep.rows])


def row_numbers(row: SweepRow) -> dict[str, Any]:
    return {
        "ablation": row.ablation,
        "levels": row.levels,
        "horizon": row.horizon,
        "tokens": row.num_tokens,
        "nested": row.nested_dropout,
        "vocabulary": row.vocab_size,
        "mse_normalized": {str(b.budget): b.mse_normalized for b in row.budgets},
    }


if __name__ == "__main__":
    main()
