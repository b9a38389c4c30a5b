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
from oatkit.evaluation.success_statistics import compare_pairs, success_rate
from oatkit.jobs.paper_tables import PaperTable
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import SCALES, Place
from oatkit.jobs.row_runs import RowRuns
from oatkit.policies import Policy, load_policy
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


def solved_by_seed(
    rows: Sequence[Mapping[str, Any]], budget: Budget
) -> dict[int, Mapping[str, str]]:
    """Seeds of goals to which of their episodes the rows of a scheme solved at a budget; those that
    do not say it are left out.

    Args:
        rows: Rows of the scheme, one for each seed.
        budget: Number of tokens, or "auto".
    """
    return {
        _goals(row): found["solved"]
        for row in rows
        for found in row["budgets"]
        if found["budget"] == budget and "solved" in found
    }


def _goals(row: Mapping[str, Any]) -> int:
    """The seed of a row's goals, which older rows have beside their rules of sampling."""
    protocol = row["protocol"]
    return int(protocol["sampling"].get("seed") or protocol.get("seed") or 0)


def compared_with(
    reference: tuple[str, int], before: Mapping[str, Any], label: str, row: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows with one that was measured now, all compared with the reference on the same episodes.

    Rows that do not say which episodes they solved keep the comparison that they have, unless they
    or the reference were measured again.

    Args:
        reference: Scheme and budget that the others are compared with.
        before: Label to row, as they were.
        label: Label of what was measured now.
        row: Its numbers.
    """
    rows, scheme = {**before, label: row}, Cell.labeled(label).scheme
    found = paired(reference, rows)
    again = [] if label not in before else list(before) if scheme == reference[0] else [label]
    stale = {Cell.labeled(one).scheme for one in (*again, *found)}
    return {
        one: {
            **{name: value for name, value in own.items() if name != "against"},
            **({} if Cell.labeled(one).scheme in stale else _kept(own)),
            **({"against": found[one]} if one in found else {}),
        }
        for one, own in rows.items()
    }


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"against": row["against"]} if "against" in row else {}


def paired(reference: tuple[str, int], rows: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every scheme and budget compared with the reference on the same episodes, of all seeds that
    both have; rows that do not say which episodes they solved are left out.

    Args:
        reference: Scheme and budget that the others are compared with.
        rows: Label to row.

    Returns:
        Label of the first seed of a scheme to budget to the comparison.
    """
    name, budget = reference
    schemes = over_seeds(rows)
    own = solved_by_seed(schemes.get(name, []), budget)
    found: dict[str, dict[str, Any]] = {}
    for scheme, each in schemes.items():
        for other in dict.fromkeys(result["budget"] for result in each[0]["budgets"]):
            theirs = solved_by_seed(each, other)
            seeds = [seed for seed in own if seed in theirs]
            both = solved_by_both([own[s] for s in seeds], [theirs[s] for s in seeds])
            if both and (scheme, other) != reference:
                names = f"{name} at {budget}", f"{scheme} at {budget_name(other)}"
                pair = asdict(compare_pairs(*names, both)) | {"seeds": len(seeds)}
                first = next(label for label in rows if Cell.labeled(label).scheme == scheme)
                found.setdefault(first, {})[budget_name(other)] = pair
    return found


def comparison(rows: Sequence[Mapping[str, Any]], budget: str) -> dict[str, Any] | None:
    """The comparison of a scheme at a budget, which one of its seeds' rows keeps for all."""
    kept = (row["against"] for row in rows if budget in row.get("against", {}))
    return next((dict(pairs[budget]) for pairs in kept), None)
