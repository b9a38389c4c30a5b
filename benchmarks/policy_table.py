"""The paper's lightweight table on MetaWorld: the same small policy on each tokenizer's tokens.

    python -m benchmarks.policy_table [--only oat ...] [--temperatures 0 1] [--seeds 0 1 2]
        [--images] [--steps N] [--episodes 50] [--data PATH]

Rows are those of `oatkit reproduce light-policies`, made in the same way: 32 actions, 8 tokens, FSQ
levels 8 5 5 5 (`quest` halves the steps and has 16 tokens and levels 8 8 6 5). Policies are
evaluated on four tasks, with goals that no demonstration has; the first half of a chunk is
executed. Rows that are not default run only if `--only` names them. Every row, temperature and seed
is saved by itself, with its own settings: the same command again resumes, also within a training,
and skips what is finished; `--again` measures it again.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import oatkit
from benchmarks.closed_loop import (
    Cell,
    arguments,
    cells,
    compared_with,
    in_order,
    is_finished,
    measure_cell,
    parsed,
    row_runs,
)
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import REPRODUCTION, SEED, metaworld
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_scales import Place, find_places
from oatkit.jobs.row_runs import RowRuns
from oatkit.types.observation_keys import ENVIRONMENT_STATE

NAME = "policy_table"
HORIZON = 32
REFERENCE = ("oat", 8)
"""Row and budget that all others are compared with, pair by pair."""
TABLE = paper_table("light-policies")
DEFAULT = ("bin", "quest", "oat", "oat-pow2")


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__.splitlines()[0], list(TABLE.all_rows), DEFAULT)
    parser.add_argument("--images", action="store_true", help="from the camera and the arm's state")
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    args = parsed(parser, argv)
    observed, runs = "images" if args.images else "state", row_runs(args, TABLE)
    place = find_place(args, runs)
    for cell in cells(args):
        before = read_results(NAME).get(observed, {}).get(cell.label)
        what, row = f"{observed}/{cell.label}", TABLE.all_rows[cell.name]
        if not args.again and is_finished(what, before, runs, row):
            continue
        print(what, flush=True)
        _, numbers = measure_cell(runs, TABLE, cell, place)
        save(observed, cell, numbers)


def find_place(args: Namespace, runs: RowRuns) -> Place:
    """The demonstrations, made with images at most 96 x 96 where policies read them."""
    name = "metaworld-images" if args.images else "metaworld"
    data = {} if args.data is None else {name: args.data}
    if not data and not args.images and args.scale == "small":
        data = {name: metaworld()}
    folder, how = REPRODUCTION / args.scale / "data", {"images": args.images}
    (place,) = find_places(TABLE, runs.scale, folder, data, **how, show_progress=True)
    return place


def save(observed: str, cell: Cell, row: dict[str, Any]) -> None:
    """Save the row beside the others, compared with the reference as far as both are known."""
    results = read_results(NAME)  # another process may have added to them
    rows = compared_with(REFERENCE, results.get(observed, {}), cell.label, row)
    found = {**results, observed: in_order(rows, list(TABLE.all_rows))}
    write_result(NAME, seed=SEED, settings={"reference": list(REFERENCE)}, results=found)


def open_with_full_state(path: Path) -> oatkit.Dataset:
    """Demonstrations with the state that MetaWorld's own policies see, the goal included."""
    return oatkit.open_dataset(path, state_key=(ENVIRONMENT_STATE,))


if __name__ == "__main__":
    main()
