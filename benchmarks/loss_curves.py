"""Loss curves of small trainings, to show that a change of the code leaves them bit for bit.

    python -m benchmarks.loss_curves --out before.json        # on the version before
    python -m benchmarks.loss_curves --against before.json    # on the version after

One `oat`, one `quest`, one light policy and one `vlm-tc` are trained on data made from a seed, by
the same commands that users type, so that the script runs on any version. Curves are compared as
the exact numbers of `train.jsonl`, weights by their digest. Bits depend on the machine, so compare
only what was run on one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oatkit import cli

TIMES = ("samples_per_s", "waiting_share")
"""What a log holds that differs from run to run."""


def write_data(folder: Path) -> None:
    """Ten episodes of actions that follow from the state, seen by one camera."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for episode in range(10):
        state = rng.normal(size=(40, 5)).cumsum(axis=0)
        images = rng.integers(256, size=(40, 16, 16, 3), dtype=np.uint8)
        np.savez(
            folder / f"{episode:02d}.npz",
            **{
                "action": np.tanh(state[:, :3]) + 0.01 * rng.normal(size=(40, 3)),
                "observation.state": state,
                "observation.images.front": images,
            },
            task=("open the door", "close the door")[episode % 2],
        )


def trainings(folder: Path) -> dict[str, list[str]]:
    """Name to the command line, in the order in which they depend on each other."""
    tokenizer = f"tokenizer train --data {folder}/data --preset tiny --steps 40 --horizon 8"
    policy = f"policy train --data {folder}/data --preset tiny --steps 30 --tokenizer {folder}/oat"
    vlm = f"--policy vlm-tc --backbone {folder}/backbone --cameras front"
    return {
        "oat": f"{tokenizer} --kind oat --num-tokens 4 --levels 5 4 --out {folder}/oat".split(),
        "quest": f"{tokenizer} --kind quest --levels 5 4 --out {folder}/quest".split(),
        "light": f"{policy} --cameras front --out {folder}/light".split(),
        "vlm-tc": f"{policy} {vlm} --out {folder}/vlm-tc".split(),
    }


def curve(folder: Path) -> dict[str, Any]:
    """What a training logged, and a digest of the weights it left."""
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    weights = hashlib.blake2b((folder / "model.safetensors").read_bytes(), digest_size=16)
    return {
        "rows": [{k: v for k, v in row.items() if k not in TIMES} for row in rows],
        "weights": weights.hexdigest(),
    }


def run() -> dict[str, Any]:
    """All trainings in a temporary folder."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data")
        found = {}
        assert (
            cli.main(["vlm", "scratch", "--family", "paligemma2", "--out", f"{folder}/backbone"])
            == 0
        )
        for name, words in trainings(folder).items():
            assert cli.main(words) == 0, name
            found[name] = curve(folder / name)
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Where the curves of `before` are not those of `after`; what is only logged since is fine."""
    found = []
    for name, old in before.items():
        new = after[name]
        if old["weights"] != new["weights"]:
            found.append(f"{name}: the weights differ")
        for old_row, new_row in zip(old["rows"], new["rows"], strict=True):
            kept = {key: new_row.get(key) for key in old_row}
            if kept != old_row:
                found.append(f"{name}, step {old_row['step']}: {old_row} became {kept}")
    return found


def main() -> int:
    """Write the curves, or compare them with those of a version before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the curves here")
    parser.add_argument("--against", type=Path, help="compare with curves written before")
    args = parser.parse_args()
    found = run()
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    if args.against is None:
        return 0
    different = differences(json.loads(args.against.read_text()), found)
    print("\n".join(different) or "all curves and weights are equal bit for bit")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
