"""The paper's ablations in closed loop: actions against tokens of a chunk, and FSQ levels.

    python -m benchmarks.policy_sweep [--tables horizons-half horizons-fixed codebook]
        [--only "32 actions, 8 tokens" ...] [--temperatures 0] [--seeds 0] [--steps N]
        [--episodes 50] [--data PATH]

Rows are those of `oatkit reproduce TABLE`, made in the same way: `oat` from state on MetaWorld's
four tasks, 8 tokens where tokens are not swept. Tables share policies that differ in execution
alone. Every row is saved by itself, with its own settings: the same command again resumes, also
within a training, and skips what is finished; `--again` measures it again.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.closed_loop import (
    arguments,
    cells,
    in_order,
    is_finished,
    measure_cell,
    parsed,
    row_runs,
)
from benchmarks.policy_table import find_place
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import SEED
from oatkit.jobs.paper_tables import paper_table

NAME = "policy_sweep"
TABLES = ("horizons-half", "horizons-fixed", "codebook")


def main(argv: list[str] | None = None) -> None:
    known = dict.fromkeys(row for name in TABLES for row in paper_table(name).rows)
    parser = arguments(__doc__.splitlines()[0], list(known), list(known))
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    parser.set_defaults(images=False)
    args = parsed(parser, argv)
    for name in args.tables:
        table = paper_table(name)
        runs = row_runs(args, table)
        place = find_place(args, runs)
        for cell in cells(args):
            if cell.name not in table.rows:
                continue
            what, before = f"{name}: {cell.label}", read_results(NAME).get(name, {}).get(cell.label)
            if not args.again and is_finished(what, before, runs, table.rows[cell.name]):
                continue
            print(what, flush=True)
            _, row = measure_cell(runs, table, cell, place)
            results = read_results(NAME)  # another process may have added to them
            rows = in_order({**results.get(name, {}), cell.label: row}, list(table.rows))
            write_result(NAME, seed=SEED, settings={}, results={**results, name: rows})


if __name__ == "__main__":
    main()
