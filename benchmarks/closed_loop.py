"""What the closed-loop benchmarks share: rows by `oatkit.jobs.row_runs`, and their numbers.

Rows, sizes and recipes are those of `oatkit reproduce`, which finds what was trained here with
`--out out/bench/reproduction`, and the other way round.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.record import keep_apart
from benchmarks.timing import trained_seconds
from benchmarks.tokenizer_rate_distortion import REPRODUCTION
from oatkit.evaluation.success_statistics import compare_paired, success_rate
from oatkit.jobs.paper_tables import PaperTable
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import SCALES, Place
from oatkit.jobs.row_runs import RowRuns
from oatkit.policies import Policy, load_policy
from oatkit.storage.records import read_record
from oatkit.types import Budget, EpisodeResult, PolicyEvaluation, budget_name

CELL = re.compile(r"(?P<name>.+?)(, temperature (?P<temperature>[\d.]+))?(, seed (?P<seed>\d+))?")


@dataclass(frozen=True)
class Cell:
    """A row of a table with a temperature and a seed.

    Its label says them where they are not 0: `oat, temperature 1, seed 2`.
    """

    name: str
    temperature: float = 0.0
    seed: int = 0

    @classmethod
    def labeled(cls, label: str) -> Cell:
        """The cell of a label; the inverse of `label`."""
        found = CELL.fullmatch(label)
        assert found is not None
        return cls(found["name"], float(found["temperature"] or 0), int(found["seed"] or 0))

    @property
    def scheme(self) -> str:
        """The label without the seed, which is the same for all trainings of a row."""
        return self.name + (f", temperature {self.temperature:g}" if self.temperature else "")

    @property
    def label(self) -> str:
        return self.scheme + (f", seed {self.seed}" if self.seed else "")


def arguments(summary: str, rows: Sequence[str], default: Sequence[str]) -> ArgumentParser:
    """Options that the closed-loop benchmarks share."""
    parser = ArgumentParser(description=summary)
    parser.add_argument("--only", nargs="*", default=list(default), choices=list(rows))
    parser.add_argument("--temperatures", nargs="*", type=float, default=[0.0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0], help="one training for each")
    parser.add_argument("--scale", default="small", choices=["tiny", "small"])
    parser.add_argument(
        "--steps", type=int, help="training steps of the policy; the preset's for rows by default"
    )
    parser.add_argument(
        "--tokenizer-steps", type=int, help="the same of the tokenizer; the preset's by default"
    )
    parser.add_argument(
        "--episodes", type=int, help="episodes of each task; the scale's by default"
    )
    parser.add_argument("--workers", type=int, help="simulator processes; one per core by default")
    parser.add_argument("--again", action="store_true", help="measure finished rows again")
    return parser


def parsed(parser: ArgumentParser, argv: list[str] | None) -> Namespace:
    """What was asked for; numbers of the tiny scale are kept apart from the stored ones."""
    args = parser.parse_args(argv)
    keep_apart(args.scale == "tiny")
    return args


def cells(args: Namespace) -> Iterator[Cell]:
    """The rows that were asked for: all have one seed before any has two."""
    for seed in args.seeds:
        for name in args.only:
            yield from (Cell(name, temperature, seed) for temperature in args.temperatures)


def row_runs(args: Namespace, table: PaperTable) -> RowRuns:
    """How the rows of a table are made."""
    scale = SCALES[args.scale].changed(args.episodes, args.steps, args.tokenizer_steps)
    folder, how = REPRODUCTION / args.scale, {"workers": args.workers, "show_progress": True}
    return RowRuns(scale, scale.preset(table), folder, **how)


def is_finished(what: str, found: Mapping[str, Any] | None, runs: RowRuns, row: PolicyRow) -> bool:
    """Whether the results have a row, which is said; also if it is of other steps than asked for.

    Args:
        what: Name of the row, in words.
        found: The row of the results; None where they have none.
        runs: How the rows are made.
        row: What was asked for.
    """
    if found is None:
        return False
    asked = runs.policy_steps(row), runs.tokenizer_steps(row) or 0
    steps = found["steps"], found["tokenizer_steps"] or 0
    other = f" with {steps[0]} steps and {steps[1]} of its tokenizer, not {asked[0]} and {asked[1]}"
    print(f"{what} is finished{other if steps != asked else ''}; --again measures it again")
    return True


def measure_cell(
    runs: RowRuns, table: PaperTable, cell: Cell, place: Place
) -> tuple[PolicyEvaluation, dict[str, Any]]:
    """The episodes of a cell, and what the result file keeps of them, with its settings."""
    row = table.all_rows[cell.name]
    how: dict[str, Any] = {"seed": cell.seed, "temperature": cell.temperature}
    record = runs.evaluate(cell.name, row, place, **how)
    settings = {
        **{"preset": runs.preset, "tokenizer_preset": runs.preset, "seed": cell.seed},
        **{"episodes": runs.scale.episodes, "tokenizer": dict(row.options)},
    }
    numbers = row_numbers(record, runs.policy(row, place, cell.seed))
    return record, {**numbers, "settings": settings}


def row_numbers(record: PolicyEvaluation, trained_in: Path) -> dict[str, Any]:
    """Numbers of an evaluation and of the policy's training, for the result file."""
    policy = load_policy(trained_in)
    train = policy.extras["train"]
    protocol = ("execute", "horizon", "sampling", "endpoints", "seed")
    return {
        "kind": record.kind,
        "tokens": policy.tokenizer.max_tokens,
        "parameters": sum(p.numel() for p in policy.net.parameters()),
        "steps": train["steps"],
        "batch_size": train["batch_size"],
        "seconds": trained_seconds(trained_in, policy),
        "tokenizer_steps": policy.tokenizer.extras.get("train", {}).get("steps", 0),
        **policy_recipe(policy),
        "protocol": {name: record.settings.get(name) for name in protocol},
        "budgets": [
            asdict(result)
            | {"solved": solved([e for e in record.episodes if e.budget == result.budget])}
            for result in record.budgets
        ],
        "against_largest": [asdict(pair) for pair in record.comparisons],
        "failed": sum(e.error is not None for e in record.episodes),
    }


def policy_recipe(policy: Policy) -> dict[str, Any]:
    """What decides how a light policy learns, beside its steps: how many frames it sees, how wide
    its targets are around the true codes, and the layers of its offset head."""
    config = policy.net.config
    return {
        "history": policy.spec.history,
        "code_smoothing": getattr(config, "code_smoothing", 0.0),
        "offset_layers": getattr(config, "offset_layers", 0),
    }


def read_evaluation(
    runs: RowRuns, table: PaperTable, cell: Cell, place: Place
) -> PolicyEvaluation | None:
    """The record of a cell's evaluation; None where it has not begun here."""
    row, given = table.all_rows.get(cell.name), (cell.seed, cell.temperature)
    if row is None:
        return None
    path = runs.evaluation_dir(cell.name, row, place, *given) / RECORD
    return read_record(path, PolicyEvaluation) if path.exists() else None


def solved(episodes: Sequence[EpisodeResult]) -> dict[str, str]:
    """Task to which of its episodes were solved, in their order: "0110"."""
    found: dict[str, str] = {}
    for episode in sorted(episodes, key=lambda e: (e.task, e.episode)):
        found[episode.task] = found.get(episode.task, "") + str(int(episode.is_success))
    return found


def solved_by_both(
    first: Sequence[Mapping[str, str]], second: Sequence[Mapping[str, str]]
) -> list[tuple[bool, bool]]:
    """Whether the first and the second solved each of the episodes that both have.

    Args:
        first: What `solved` gives, of each training.
        second: The same; the first training is compared with the first.
    """
    return [
        (one == "1", other == "1")
        for ours, theirs in zip(first, second, strict=False)
        for task in ours
        if task in theirs
        for one, other in zip(ours[task], theirs[task], strict=False)
    ]


def over_seeds(rows: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Scheme to its rows, one for each seed."""
    found: dict[str, list[Any]] = {}
    for label, row in rows.items():
        found.setdefault(Cell.labeled(label).scheme, []).append(row)
    return found


def fixed_budgets(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A row's results at the numbers of tokens that were asked for, without "auto"."""
    return [budget for budget in row["budgets"] if budget["budget"] != "auto"]


def pooled(rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Success of several evaluations together, with its interval."""
    total = success_rate(sum(r["successes"] for r in rates), sum(r["episodes"] for r in rates))
    return asdict(total)


def in_order(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Results by label, in the order of the rows, temperatures and seeds."""

    def place(label: str) -> tuple[int, float, int]:
        cell = Cell.labeled(label)
        known = names.index(cell.name) if cell.name in names else len(names)
        return known, cell.temperature, cell.seed

    return {label: found[label] for label in sorted(found, key=place)}


def paired(
    reference: tuple[str, int], records: Mapping[str, PolicyEvaluation]
) -> dict[str, dict[str, Any]]:
    """Every scheme and budget compared with the reference on the same episodes, of all seeds.

    Args:
        reference: Scheme and budget that the others are compared with.
        records: Label to what was evaluated.

    Returns:
        Label of the first seed of a scheme to budget to the comparison.
    """
    schemes: dict[str, dict[Budget, list[EpisodeResult]]] = {}
    labels: dict[str, dict[int, str]] = {}
    for label, record in records.items():
        cell = Cell.labeled(label)
        scheme = cell.scheme
        labels.setdefault(scheme, {})[cell.seed] = label
        budgets = schemes.setdefault(scheme, {result.budget: [] for result in record.budgets})
        for episode in record.episodes:
            budgets.setdefault(episode.budget, []).append(episode)
    name, budget = reference
    own = schemes.pop(name, {})
    against = own.pop(budget, [])
    found: dict[str, dict[str, Any]] = {}
    for scheme, budgets in {name: own, **schemes}.items():
        for other, episodes in budgets.items():
            names = f"{name} at {budget}", f"{scheme} at {budget_name(other)}"
            pair = compare_paired(*names, against, episodes)
            if pair is not None:
                first, *_ = labels[scheme].values()
                seeds = {"seeds": len(labels[scheme].keys() & labels[name].keys())}
                found.setdefault(first, {})[budget_name(other)] = asdict(pair) | seeds
    return found


def comparison(rows: Sequence[Mapping[str, Any]], budget: str) -> dict[str, Any] | None:
    """The comparison of a scheme at a budget, which one of its seeds' rows keeps for all."""
    kept = (row["against"] for row in rows if budget in row.get("against", {}))
    return next((dict(pairs[budget]) for pairs in kept), None)
