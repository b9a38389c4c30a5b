"""The light table on robosuite: the same small policy on each tokenizer's tokens.

    python -m benchmarks.policy_robosuite [--only oat oat-pow2 ...] [--images] [--seeds 0]
        [--temperatures 0] [--steps N] [--episodes 50]

Rows are those of `oatkit reproduce light-policies --env robosuite`, made in the same way, on
RoboMimic's three tasks that the paper has, lift, can and square, from 50 demonstrations of our
scripted experts each. The policy reads the environment state, or with `--images` both cameras and
the arm's state. Every row is saved by itself: the same command again resumes, also within a
training, and skips what is finished; `--again` measures it again.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

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
from benchmarks.tokenizer_rate_distortion import REPRODUCTION, SEED
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.reproduction_scales import Place, find_places
from oatkit.jobs.row_runs import RowRuns

NAME = "policy_robosuite"
TABLE = paper_table("light-policies")
DEFAULT = ("oat", "oat-pow2", "quest", "bin", "fast")
IMAGES = ", images"
"""What the label of a row from images has after the row's name."""


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__.splitlines()[0], list(TABLE.all_rows), DEFAULT)
    parser.add_argument("--images", action="store_true", help="from both cameras and the arm")
    args = parsed(parser, argv)
    runs = row_runs(args, TABLE)
    names = [f"{row}{seen}" for row in TABLE.all_rows for seen in ("", IMAGES)]
    place = find_place(args, runs)
    for cell in cells(args):
        label = labeled(cell, images=args.images).label
        before = read_results(NAME).get(label)
        if not args.again and is_finished(label, before, runs, TABLE.all_rows[cell.name]):
            continue
        print(label, flush=True)
        _, row = measure_cell(runs, TABLE, cell, place)
        found = in_order({**read_results(NAME), label: row}, names)
        write_result(NAME, seed=SEED, settings={}, results=found)


def labeled(cell: Cell, *, images: bool) -> Cell:
    """The cell by the name that the results have for it: `oat, images`."""
    return replace(cell, name=f"{cell.name}{IMAGES}") if images else cell


def find_place(args: Namespace, runs: RowRuns) -> Place:
    """The demonstrations, which are made unless they are there, and the simulator."""
    how = {"images": args.images, "workers": args.workers, "show_progress": True}
    folder, where = REPRODUCTION / args.scale / "data", ("robosuite",)
    (place,) = find_places(TABLE, runs.scale, folder, {}, simulators=where, **how)
    return place


if __name__ == "__main__":
    main()
