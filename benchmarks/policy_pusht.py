"""PushT in closed loop from human demonstrations: how much of its outline the T covers.

    python -m benchmarks.policy_pusht --pusht PATH [--zarr PATH] [--only oat quest ...]
        [--temperatures 0] [--seeds 0] [--steps N] [--episodes 50]

Rows are those of `oatkit reproduce pusht`, made in the same way, from state and, with `--zarr`
(Diffusion Policy's replay buffer of the same demonstrations), from keypoints. A chunk has 16
actions, of which 8 are executed; the ordered kinds have 8 tokens. The score of an episode is the
best clip(coverage / 0.95, 0, 1) of its steps. Every row is saved by itself, with its own settings:
the same command again resumes, also within a training, and skips what is finished; `--again`
measures it again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np

import oatkit
from benchmarks.closed_loop import (
    Cell,
    arguments,
    cells,
    in_order,
    is_finished,
    measure_cell,
    parsed,
    row_runs,
)
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED
from oatkit.envs.pusht import FPS, KEYPOINTS_KEY, TASKS
from oatkit.evaluation.success_statistics import Z_95
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_scales import find_places
from oatkit.types import PolicyEvaluation
from oatkit.types.observation_keys import STATE

NAME = "policy_pusht"
TABLE = paper_table("pusht")
KEYPOINTS = ", keypoints"
"""What the label of a row from keypoints has after the row's name."""


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__.splitlines()[0], list(TABLE.all_rows), list(TABLE.rows))
    parser.add_argument("--pusht", type=Path, help="LeRobot's dataset")
    parser.add_argument("--zarr", type=Path, help="Diffusion Policy's replay buffer")
    args = parsed(parser, argv)
    data = {} if args.pusht is None else {"pusht": args.pusht}
    if args.zarr is not None:
        data["pusht-keypoints"] = keypoint_data(args.zarr)
    runs = row_runs(args, TABLE)
    names = [f"{row}{seen}" for row in TABLE.all_rows for seen in ("", KEYPOINTS)]
    for place in find_places(TABLE, runs.scale, runs.folder, data):
        for cell in cells(args):
            label = labeled(cell, place.name).label
            before = read_results(NAME).get(label)
            if not args.again and is_finished(label, before, runs, TABLE.all_rows[cell.name]):
                continue
            print(label, flush=True)
            record, row = measure_cell(runs, TABLE, cell, place)
            row["score_half_widths"] = half_widths(record)
            found = in_order({**read_results(NAME), label: row}, names)
            write_result(NAME, seed=SEED, settings={}, results=found)


def labeled(cell: Cell, place: str) -> Cell:
    """The cell by the name that the results have for it: `oat, keypoints`."""
    return replace(cell, name=f"{cell.name}{KEYPOINTS}") if place == "pusht-keypoints" else cell


def half_widths(record: PolicyEvaluation) -> list[float]:
    """Half widths of the normal 95 % intervals of the mean scores, one for each budget."""
    found = []
    for budget in record.budgets:
        scores = [e.score or 0.0 for e in record.episodes if e.budget == budget.budget]
        spread = stdev(scores) if len(scores) > 1 else 1.0
        found.append(Z_95 * spread / len(scores) ** 0.5)
    return found


def keypoint_data(zarr: Path) -> Path:
    """Folder with the episodes of the replay buffer, disc and keypoints in separate columns."""
    folder = OUT / "data" / "pusht-keypoints"
    if folder.exists():
        return folder
    dataset = oatkit.open_dataset(zarr, state_key=("state", "keypoint"))
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
