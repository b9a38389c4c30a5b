"""How often recorded demonstrations of robosuite, moved to other start poses, solve their task.

    python -m benchmarks.robosuite_replay FILE.hdf5 ... [--episodes 20]

Start poses are those of the first demonstrations of seed 0, as for our own experts. Files are saved
one by one, under their names.
"""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from pathlib import Path

from benchmarks.record import read_results, write_result
from benchmarks.robosuite_experts import SEED, measure_expert
from oatkit.envs.robosuite import SCENES
from oatkit.jobs.robosuite_recordings import read_recordings, recorded_task
from oatkit.jobs.robosuite_replay import recorded_expert

NAME = "robosuite_replay"


def main(argv: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=20)
    args = parser.parse_args(argv)
    for path in args.files:
        task = recorded_task(path)
        row = measure_expert(task, args.episodes, partial(recorded_expert, path))
        num_recordings = len(read_recordings(path, task))
        row |= {"robosuite_name": SCENES[task].name, "recordings": num_recordings}
        print(path.stem, row, flush=True)
        found = {**read_results(NAME), path.stem: row}
        write_result(NAME, seed=SEED, settings={}, results=dict(sorted(found.items())))


if __name__ == "__main__":
    main()
