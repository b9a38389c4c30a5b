"""Real datasets: each is read, checked, converted, and tokenized in each representation of actions.

    python -m benchmarks.real_data --data pusht=PATH cr5=PATH ... [--fps zarr=10] [--kinds fast klt]

Actions are taken as they are, as differences to the action before, and relative to the state,
where the state has the same dimensions. `fast` tells by its number of tokens which representation
is cheapest at one resolution, `klt` by the error of as many tokens, as `oatkit tokenizer compare
--representations` does. Errors are of held-out chunks, as shares of the variance of the actions.
Rows are saved one by one; the same command again goes on.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import oatkit
from benchmarks.record import read_results, write_result
from oatkit.data import Dataset
from oatkit.data.check import check_dataset
from oatkit.jobs.conversion_plan import Conversion
from oatkit.jobs.dataset_conversion import convert_dataset

NAME = "real_data"
SEED = 0
HORIZON = 16
NUM_TOKENS = 8
REPRESENTATIONS = ("absolute", "delta", "relative")
SPLIT: dict[str, Any] = {"held_out": 0.1, "split_seed": SEED}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--kinds", nargs="+", default=["fast", "klt"], choices=["fast", "klt"])
    parser.add_argument("--fps", nargs="*", default=[], metavar="NAME=FPS", help="if none is said")
    args = parser.parse_args(argv)
    rates = {name: float(fps) for name, fps in (one.split("=") for one in args.fps)}
    settings = {"horizon": HORIZON, "num_tokens": NUM_TOKENS}
    for name, path in (one.split("=", 1) for one in args.data):
        dataset = oatkit.open_dataset(path, allow_nonfinite=True, fps=rates.get(name))
        found = {**facts(dataset), **read_results(NAME).get(name, {})}
        for words in REPRESENTATIONS:
            for kind in args.kinds:
                row = f"{kind}, {words}"
                if row not in found:
                    print(name, row, flush=True)
                    found[row] = tokenized(dataset, words, kind)
                results = {**read_results(NAME), name: found}
                write_result(NAME, seed=SEED, settings=settings, results=results)


def facts(dataset: Dataset) -> dict[str, Any]:
    """What was read, what the check found, and how the converted dataset differs; images are left
    out of it, which takes long."""
    findings = check_dataset(dataset, horizon=HORIZON).findings
    with tempfile.TemporaryDirectory() as folder:
        again = oatkit.open_dataset(
            convert_dataset(dataset, Path(folder) / "converted", Conversion(cameras=()))
        )
        whole = [one.action.rows(0, one.num_frames) for one in (dataset, again)]
        difference = float(np.abs(whole[0] - whole[1]).max())
    return {
        "format": dataset.format,
        "episodes": len(dataset),
        "frames": dataset.num_frames,
        "action_dim": dataset.action_dim,
        "state_dim": dataset.state_dim,
        "fps": dataset.fps,
        "findings": sorted({finding.kind for finding in findings}),
        "converted_difference": difference,
    }


def tokenized(dataset: Dataset, words: str, kind: str) -> dict[str, Any]:
    """Tokens and error of a kind in a representation; the sentence that refuses it, if one does."""
    sizes: dict[str, Any] = {"horizon": HORIZON, **SPLIT}
    sizes |= {"num_tokens": NUM_TOKENS} if kind == "klt" else {}
    try:
        tokenizer = oatkit.train_tokenizer(dataset.represented_as(words), kind, **sizes)
    except ValueError as error:
        return {"refused": str(error)}
    held_out = dataset.split(SPLIT["held_out"], seed=SEED)[1]
    variance = float(np.square(held_out.action_statistics().std).mean())
    last = tokenizer.extras["rate_distortion"][-1]
    return {"tokens": round(last["budget"], 2), "share_left": last["mse"] / variance}


if __name__ == "__main__":
    main()
