"""Can a policy predict the tokens? The light policy on learned, analytic and mixed tokens.

    python -m benchmarks.token_predictability [--steps 800] [--again]

It uses the MetaWorld tokenizers that `benchmarks.tokenizer_rate_distortion` leaves in `out/bench`.
The same policy (from the full state, preset `small`) is trained on each and measured on held-out
episodes: how often the likeliest id is the true one given the true earlier ones, and the error of
the chunk that it generates itself, beside the error of the true tokens.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import oatkit
from benchmarks.closed_loop import policy_recipe
from benchmarks.policy_table import open_with_full_state
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, metaworld, tokenizer_dir
from oatkit.measure.policy_metrics import measure_policy

NAME = "token_predictability"
SEED = 0
TOKENIZERS = {"oat": "oat", "oat-4+12refined": "oat, 4 + 12 refined", "klt": "klt"}
"""Names in the results to rows of `benchmarks.tokenizer_rate_distortion`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--again", action="store_true", help="measure finished rows again")
    args = parser.parse_args()
    results, steps = {} if args.again else read_results(NAME), args.steps
    for name, row in TOKENIZERS.items():
        if name not in results:
            print(name, flush=True)
            tokenizer = tokenizer_dir("metaworld", row)
            results[name] = measure(tokenizer, OUT / "policies" / name, steps)
            write_result(NAME, seed=SEED, settings={"steps": steps}, results=results)


def measure(tokenizer: Path, out: Path, steps: int) -> dict[str, Any]:
    dataset = open_with_full_state(metaworld())
    recipe = {"steps": steps, "seed": SEED}
    policy = oatkit.train_policy(dataset, tokenizer, out=out, train=recipe, show_progress=True)
    held_out = dataset.split(0.1, seed=0)[1]
    found = measure_policy(policy, held_out, split="val", sampling=oatkit.Sampling(seed=SEED))
    return {
        "loss": found.loss,
        "accuracy": [slot.accuracy for slot in found.slots],
        "loss_bits": [slot.loss_bits for slot in found.slots],
        "mse": {str(b.budget): b.mse for b in found.budgets},
        "tokenizer_mse": {str(b.budget): b.tokenizer_mse for b in found.budgets},
        **policy_recipe(policy),
        "tokenizer_steps": policy.tokenizer.extras.get("train", {}).get("steps"),
    }


if __name__ == "__main__":
    main()
