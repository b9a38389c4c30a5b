"""One held-out chunk decoded from growing prefixes, which the picture in the README shows.

    python -m benchmarks.prefix_picture [--tokenizer PATH]

The tokenizer is the row `oat, long` of `benchmarks.tokenizer_rate_distortion`, which also makes the
dataset. The chunk is the one that moves more than nine in ten other held-out chunks without padding
do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import oatkit
from benchmarks.record import write_result
from benchmarks.tokenizer_rate_distortion import metaworld, tokenizer_dir
from oatkit.measure.encoded_chunks import chunks_to_measure

NAME = "prefix_picture"
QUANTILE = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=tokenizer_dir("metaworld", "oat, long"))
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    options = parser.parse_args()
    if not options.tokenizer.exists():
        parser.error(
            f"{options.tokenizer} is not there: train it by `python -m "
            'benchmarks.tokenizer_rate_distortion --only "metaworld/oat, long"`, or name one by '
            "--tokenizer"
        )
    tokenizer = oatkit.load_tokenizer(options.tokenizer)
    held_out = oatkit.open_dataset(options.data or metaworld()).split(0.1, seed=0)[1]
    actions_BTA, is_pad_BT, _ = chunks_to_measure(held_out, tokenizer.horizon)
    unpadded_BTA = actions_BTA[~is_pad_BT.any(axis=1)]
    order = np.argsort(unpadded_BTA.std(axis=1).sum(axis=1))
    chosen_1TA = torch.from_numpy(unpadded_BTA[order[[int(QUANTILE * len(order))]]])
    tokens = tokenizer.encode(chosen_1TA)
    decoded = {k: tokenizer.decode(tokens, budget=k) for k in tokenizer.budgets}
    write_result(
        NAME,
        seed=0,
        settings={
            **{"tokenizer": options.tokenizer.name, "quantile": QUANTILE},
            "steps": tokenizer.extras["train"]["steps"],
        },
        results={
            "kind": tokenizer.kind,
            "dimensions": list(held_out.action.names),
            "ids": tokens.ids[0].tolist(),
            "truth": _rounded(chosen_1TA),
            "decoded": {str(k): _rounded(chunk_1TA) for k, chunk_1TA in decoded.items()},
            "mse": {
                str(k): float((chunk_1TA - chosen_1TA).square().mean())
                for k, chunk_1TA in decoded.items()
            },
        },
    )


def _rounded(chunk_1TA: torch.Tensor) -> list[list[float]]:
    return [[round(x, 3) for x in row] for row in chunk_1TA[0].tolist()]


if __name__ == "__main__":
    main()
