"""One tokenizer on a mixture of robots against one for each, in as many steps.

    python -m benchmarks.mixture --data metaworld=PATH pusht=PATH cr5=PATH robosuite=PATH
        [--kind oat-pow2] [--steps 2000] [--preset small] [--only "mixture, told the robot" ...]

Each dataset weighs alike in the mixture, so that a robot has a share of the samples that its own
tokenizer has: "a quarter" trains its own tokenizer for as many steps as it has in the mixture.
Errors are of held-out chunks, as shares of the variance of the actions. The same command again
resumes; `--only` measures some of the ways and keeps what the record has of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import oatkit
from benchmarks.record import keep_apart, read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED
from oatkit.data import Dataset, Mixture
from oatkit.tokenizers import ActionTokenizer

NAME = "mixture"
WAYS = ("mixture", "mixture, told the robot", "own", "own, as many samples")
"""By which tokenizer a robot is measured."""
HORIZON = 16
NUM_TOKENS = 8


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--kind", default="oat-pow2")
    parser.add_argument("--steps", type=int, default=2000, help="training steps of each tokenizer")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--only", nargs="*", default=list(WAYS), choices=WAYS, metavar="WAY")
    args = parser.parse_args(argv)
    keep_apart(args.preset == "tiny")
    datasets = dict(one.split("=", 1) for one in args.data)
    mixture = oatkit.open_mixture(datasets)
    how: dict[str, Any] = {"preset": args.preset, "horizon": HORIZON, "num_tokens": NUM_TOKENS}
    how |= {"show_progress": True}
    folder = OUT / NAME / f"{args.kind}-{args.preset}-{args.steps}"
    recipe = {"steps": args.steps, "seed": SEED}
    found = compare(mixture, args.kind, folder, recipe, how, args.only)
    before = read_results(NAME) if len(args.only) < len(WAYS) else {}
    results = {name: {**before.get(name, {}), **rows} for name, rows in found.items()}
    settings = {"kind": args.kind, "steps": args.steps, "preset": args.preset, "horizon": HORIZON}
    settings |= {"num_tokens": NUM_TOKENS, "robots": list(mixture.names)}
    write_result(NAME, seed=SEED, settings=settings, results=results)


def compare(
    mixture: Mixture,
    kind: str,
    folder: Path,
    recipe: dict[str, Any],
    how: dict[str, Any],
    ways: Sequence[str] = WAYS,
) -> dict[str, Any]:
    """Errors of each robot by the mixture's tokenizer, which is told the robot or not, by its own,
    and by its own in as many steps as it has in the mixture."""
    results: dict[str, Any] = {
        name: {"action_dim": mixture[name].action_dim, "fps": mixture[name].fps}
        for name in mixture.names
    }
    fewer = {**recipe, "steps": recipe["steps"] // len(mixture.members)}
    for way in ways:
        tokenizers: dict[str, ActionTokenizer] = {}
        if way.startswith("mixture"):
            is_told = way != "mixture"
            place = folder / ("told" if is_told else "mixed")
            tokenizers = oatkit.train_mixture_tokenizer(
                mixture, kind, place, embodiment_id=is_told, train=recipe, **how
            )
        for name in mixture.names:
            if not way.startswith("mixture"):
                part, steps = ("own", recipe) if way == "own" else ("short", fewer)
                tokenizers[name] = oatkit.train_tokenizer(
                    mixture[name], kind, folder / f"{part}-{name}", train=steps, **how
                )
            results[name][way] = shares_left(tokenizers[name], mixture[name])
            print(way, name, results[name][way])
    return results


def shares_left(tokenizer: ActionTokenizer, dataset: Dataset) -> dict[str, float]:
    """The error at each budget as a share of the variance of the actions."""
    variance = float(np.square(dataset.action_statistics().std).mean())
    return {
        f"{row['budget']:g}": row["mse"] / variance for row in tokenizer.extras["rate_distortion"]
    }


if __name__ == "__main__":
    main()
