"""PushT in closed loop from human demonstrations: how much of its outline the T covers.

    python -m benchmarks.policy_pusht --pusht PATH [--zarr PATH] [--only oat-pow2 ...]
        [--preset small] [--steps N] [--minutes 15] [--episodes 50] [--temperature 0]

A chunk has 16 actions, of which 8 are executed. The score of an episode is the best
clip(coverage / 0.95, 0, 1) of its steps. The default row is `oat-pow2` from state in the paper's
light recipe (8 tokens, FSQ levels 8 5 5 5); `quest`, `bin` and `oat-pow2, keypoints` run only if
`--only` names them. The last needs `--zarr`, Diffusion Policy's replay buffer of the same
demonstrations. Rows are saved one by one: the same command again resumes, also within a row, and
skips finished rows; `--again` measures them again.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np

import oatkit
from benchmarks.closed_loop import (
    arguments,
    folder_name,
    ready_policy,
    ready_tokenizer,
    row_numbers,
    settings,
)
from benchmarks.policy_table import LIGHT
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED
from oatkit.envs.pusht import FPS, KEYPOINTS_KEY, TASKS
from oatkit.errors import OatkitError
from oatkit.evaluation.success_statistics import Z_95
from oatkit.types import PolicyEvaluation, Sampling
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

NAME = "policy_pusht"
HORIZON, EXECUTE = 16, 8


@dataclass(frozen=True)
class Row:
    """One policy.

    Attributes:
        kind: Kind of the tokenizer.
        budgets: Budgets to evaluate; all tokens if empty.
        options: Settings of the tokenizer.
        state_key: Columns that the policy reads.
    """

    kind: str
    budgets: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    state_key: tuple[str, ...] = (STATE, ENVIRONMENT_STATE)


ORDERED = (1, 2, 4, 8, "auto")
ROWS = {
    "oat-pow2": Row("oat-pow2", ORDERED, LIGHT),
    "quest": Row("quest", options={"levels": LIGHT["levels"]}),
    "bin": Row("bin"),
    "oat-pow2, keypoints": Row("oat-pow2", ORDERED, LIGHT, (STATE, KEYPOINTS_KEY)),
}
DEFAULT = ("oat-pow2",)


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__.splitlines()[0], list(ROWS), DEFAULT)
    parser.add_argument("--pusht", type=Path, required=True, help="LeRobot's dataset")
    parser.add_argument("--zarr", type=Path, help="Diffusion Policy's replay buffer")
    args = parser.parse_args(argv)
    for name in args.only:
        if name in read_results(NAME) and not args.again:
            print(f"{name} is finished")
            continue
        print(name, flush=True)
        row = measure_row(name, args)
        found = {**read_results(NAME), name: row}
        results = {other: found[other] for other in ROWS if other in found}
        write_result(NAME, seed=SEED, settings={}, results=results)


def measure_row(name: str, args: Namespace) -> dict[str, Any]:
    row = ROWS[name]
    data = keypoint_data(args) if KEYPOINTS_KEY in row.state_key else args.pusht
    tokenizer = ready_tokenizer(
        oatkit.open_dataset(data),
        row.kind,
        OUT / NAME / "tokenizers" / folder_name(name),
        args.minutes,
        preset=args.tokenizer_preset,
        seed=SEED,
        horizon=HORIZON,
        **row.options,
    )
    trained_in = ready_policy(
        oatkit.open_dataset(data, state_key=row.state_key),
        tokenizer,
        OUT / NAME / folder_name(name),
        args.minutes,
        preset=args.preset,
        steps=args.steps,
        seed=SEED,
    )
    record = oatkit.evaluate(
        trained_in,
        "pusht",
        out=trained_in / f"evaluation-temperature-{args.temperature:g}",
        episodes=args.episodes,
        budgets=row.budgets,
        execute=EXECUTE,
        sampling=Sampling(args.temperature, seed=SEED),
        show_progress=True,
    )
    return {
        **row_numbers(record, trained_in),
        "score_half_widths": half_widths(record),
        "settings": settings(args, row.options),
    }


def half_widths(record: PolicyEvaluation) -> list[float]:
    """Half widths of the normal 95 % intervals of the mean scores, one for each budget."""
    found = []
    for budget in record.budgets:
        scores = [e.score or 0.0 for e in record.episodes if e.budget == budget.budget]
        spread = stdev(scores) if len(scores) > 1 else 1.0
        found.append(Z_95 * spread / len(scores) ** 0.5)
    return found


def keypoint_data(args: Namespace) -> Path:
    """Folder with the episodes of the replay buffer, disc and keypoints in separate columns."""
    if args.zarr is None:
        raise OatkitError("the row from keypoints needs Diffusion Policy's data: name it by --zarr")
    folder = OUT / "data" / "pusht-keypoints"
    if folder.exists():
        return folder
    dataset = oatkit.open_dataset(args.zarr, state_key=("state", "keypoint"))
    writing = folder.with_name("pusht-keypoints.partial")
    writing.mkdir(parents=True, exist_ok=True)
    for index in range(len(dataset)):
        episode = dataset[index]
        assert episode.state is not None
        columns: dict[str, Any] = {
            "action": episode.actions,
            STATE: episode.state[:, :2],
            KEYPOINTS_KEY: episode.state[:, 5:],
        }
        np.savez(writing / f"{index:03d}.npz", **columns, task=TASKS["pusht"], fps=FPS)
    return writing.rename(folder)


if __name__ == "__main__":
    main()
