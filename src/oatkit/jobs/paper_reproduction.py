"""A table of the paper made again, row by row: demonstrations, tokenizers, policies, evaluation.

    record = reproduce("light-policies", "out/reproduction", scale="small")

`oatkit reproduce` calls this.

out/small/light-policies.json    the record; the same call again goes on
out/small/metaworld/...          what was trained, which tables share; see `row_runs.py`
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.errors import OatkitError, unknown_name
from oatkit.evaluation.benchmark_statistics import pooled_success
from oatkit.jobs.paper_tables import PaperTable, paper_table
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import Place, find_places, scale_named
from oatkit.jobs.row_runs import TOKENIZER_SEED, RowRuns, compared_name
from oatkit.jobs.tokenizer_comparison import REPORT, compare
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.nn.device import Device
from oatkit.policies import load_policy
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.tokenizers import load_tokenizer
from oatkit.types import (
    Budget,
    ReproducedNumber,
    Reproduction,
    SuccessRate,
    TokenizerMeasurement,
    budget_name,
)

HELD_OUT, SPLIT_SEED = 0.1, 0
"""The episodes that tokenizers are measured on: those that their training held out by default."""


def reproduce(
    table: str, out: str | os.PathLike[str], *, scale: str = "small", **how: Any
) -> Reproduction:
    """Make a table or figure of the paper again; the same call goes on where it stopped.

    Args:
        table: Name of `PAPER_TABLES`.
        out: Folder for records and everything that is trained.
        scale: "tiny", "small" or "paper"; see `reproduction_scales.py`.
        how: Further arguments of `plan_reproduction`.
    """
    plan = plan_reproduction(table, Path(out) / scale, scale=scale, **how)
    return plan.finish(record_path(plan.begun, out))


def plan_reproduction(
    table: str,
    folder: Path,
    *,
    scale: str = "small",
    only: Sequence[str] = (),
    data: Mapping[str, Path] | None = None,
    simulators: Sequence[str] = (),
    simulator_keys: Mapping[str, Sequence[str]] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    backbones: Mapping[str, str] | None = None,
    published: Path | None = None,
    images: bool = False,
    episodes: int | None = None,
    steps: int | None = None,
    temperatures: Sequence[float] = (),
    seeds: Sequence[int] = (0,),
    workers: int | None = None,
    device: Device = "auto",
    show_progress: bool = False,
    may_make: bool = True,
) -> ReproductionPlan:
    """What is made of a table or figure of the paper, in a folder.

    Args:
        table: Name of `PAPER_TABLES`.
        folder: Folder for demonstrations and everything that is trained.
        scale: "tiny", "small" or "paper"; see `reproduction_scales.py`.
        only: Names of rows, also such as the paper does not have; all of the paper's by default.
        data: Benchmark to its demonstrations; the smaller scales make their own.
        simulators: Columns of the smaller scales, "metaworld" (the default) and "robosuite".
        simulator_keys: Benchmark to the parts of praxis-eval's observation that are the state.
        env_kwargs: Arguments for praxis-eval's simulators.
        backbones: Family to a checkpoint other than the scale's.
        published: Folder of FAST's universal tokenizer; one is fitted on the data by default.
        images: Whether light policies read the simulator's cameras at the smaller scales.
        episodes: Number of episodes of each task; the scale's by default.
        steps: Number of training steps of a policy; the preset's for rows by default.
        temperatures: Sampling temperatures, each of which is evaluated; the scale's by default.
        seeds: Seeds of policies: each is a training and has its own goals. Tokenizers have seed 0.
        workers: Number of simulator processes; one per core by default.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show bars.
        may_make: Whether demonstrations may be made; else they have to be named.
    """
    wanted, size = paper_table(table), scale_named(scale)
    if wanted.work == "nothing":
        raise OatkitError(f"{table} has nothing to measure: {wanted.instead}")
    _require_rows(only, wanted, table)
    size = size.changed(episodes, steps)
    how: dict[str, Any] = {"workers": workers, "show_progress": show_progress, "images": images}
    how |= {"simulator_keys": simulator_keys, "may_make": may_make, "simulators": simulators}
    places = find_places(wanted, size, folder / "data", data or {}, **how)
    given = (backbones or {}, published, env_kwargs or {}, workers, device, show_progress)
    runs = RowRuns(size, size.preset(wanted), folder, *given)
    settings = {"scale": scale, "images": images, "published": runs.published_name or False}
    begun = Reproduction(table, settings, package_versions())
    heats = tuple(temperatures) or (size.temperature,)
    names = tuple(only or wanted.row_names)
    return ReproductionPlan(wanted, runs, tuple(places), names, heats, tuple(seeds), begun)


def _require_rows(names: Sequence[str], wanted: PaperTable, table: str) -> None:
    """Raise unless a table has all of these rows."""
    for name in names:
        if name not in wanted.known_names:
            raise ValueError(unknown_name(f"row of {table}", name, wanted.known_names))


def record_path(record: Reproduction, out: str | os.PathLike[str]) -> Path:
    """Where the record of a table is kept."""
    images = "-images" if record.settings["images"] else ""
    return Path(out) / record.settings["scale"] / f"{record.table}{images}.json"


def comparison_reports(record: Reproduction, out: str | os.PathLike[str]) -> list[Path]:
    """Reports of the comparisons of a table, which show more than its numbers; mostly none."""
    if paper_table(record.table).work != "comparison":
        return []
    folder, name = record_path(record, out).parent, compared_name(record.settings["published"])
    places = dict.fromkeys(number.place for number in record.numbers)
    return [folder / place / name / REPORT for place in places]


@dataclass(frozen=True)
class ReproductionPlan:
    """The rows of a table, made one by one.

    Attributes:
        table: Table of the paper.
        runs: How rows are trained and evaluated, and where.
        places: Columns.
        names: Names of the rows.
        temperatures: Sampling temperatures.
        seeds: Seeds of policies.
        begun: The record without numbers.
    """

    table: PaperTable
    runs: RowRuns
    places: tuple[Place, ...]
    names: tuple[str, ...]
    temperatures: tuple[float, ...]
    seeds: tuple[int, ...]
    begun: Reproduction

    @property
    def console(self) -> Console:
        return Console(highlight=False, quiet=not self.runs.show_progress)

    def finish(self, path: Path) -> Reproduction:
        """Make what the record lacks, writing it anew after every row."""
        record = read_or_begin(path, self.begun)
        for cell in self.cells():
            self.console.rule(f"{record.table}: {cell}")
            before = [number for number in record.numbers if cell.is_of(number)]
            if before and self._is_done(cell, before[0], path):
                self.console.print("done before")
                continue
            found = tuple(self.numbers(cell))
            others = (number for number in record.numbers if not cell.is_of(number))
            record = replace(record, numbers=(*others, *found))
            write_record(path, record)
        return record

    def _is_done(self, cell: Cell, before: ReproducedNumber, path: Path) -> bool:
        """Whether a number is what is asked for; other episodes are run, other settings refused."""
        asked = self.settings(cell)
        changed = [
            f"--{name.replace('_', '-')} (was {before.settings[name]}, now {asked.get(name)})"
            for name in before.settings
            if before.settings[name] != asked.get(name)
        ]
        if self.table.work == "policies":
            steps = self.runs.policy_steps(self.table.all_rows[cell.name])
            if before.steps != steps:
                changed.insert(0, f"--steps (was {before.steps}, now {steps})")
        if changed:
            raise OatkitError(
                f"{path} has {cell} made with another {', '.join(changed)}: use the same, or "
                "another --out"
            )
        if before.episodes in (None, self.runs.scale.episodes):
            return True
        self.console.print(f"had {before.episodes} episodes of each task")
        return False

    def settings(self, cell: Cell) -> dict[str, Any]:
        """What decides the numbers of a cell beside its row, steps and episodes, as JSON values."""
        found: dict[str, Any] = {"data": self._fingerprints[cell.place.name]}
        if self.table.work != "policies":
            return found
        backbone = self.runs.backbone_name(self.table.all_rows[cell.name])
        found |= {} if backbone is None else {"backbone": backbone}
        if cell.place.benchmark is not None:
            found["state_key"] = list(cell.place.simulator_keys)
            found["env_option"] = dict(self.runs.env_kwargs)
        return found

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        """Places to what their demonstrations are."""
        return {place.name: place.open().fingerprint for place in self.places}

    def cells(self) -> Iterator[Cell]:
        """Seed by seed, so that all rows have one before any has two."""
        acts = self.table.work == "policies"
        for place in self.places:
            for seed in self.seeds if acts else (TOKENIZER_SEED,):
                for name in self.names:
                    for temperature in self.temperatures if acts else (None,):
                        yield Cell(name, place, seed, temperature)

    def numbers(self, cell: Cell) -> Iterator[ReproducedNumber]:
        """Train what a cell needs, unless it is there, and measure it."""
        if self.table.work == "comparison":
            return self._compared(cell)
        row = self.table.all_rows[cell.name]
        if self.table.work == "tokenizers":
            return self._errors(cell, row)
        return self._successes(cell, row)

    def _compared(self, cell: Cell) -> Iterator[ReproducedNumber]:
        """Held-out errors of a kind of tokenizer; the comparison has its own report."""
        runs, kind, place = self.runs, cell.name, cell.place
        record = compare(
            place.open(),
            [kind],
            runs.compared_dir(place),
            preset=runs.preset,
            published=runs.published,
            horizon=place.horizon,
            train={**runs.scale.tokenizer, "seed": cell.seed},
            device=runs.device,
            show_progress=runs.show_progress,
        )
        (measured,) = (k.measurement for k in record.kinds if k.measurement.kind == kind)
        return self._measured(cell, measured, record.steps.get(kind, 0))

    def _errors(self, cell: Cell, row: PolicyRow) -> Iterator[ReproducedNumber]:
        """Held-out errors of a row's tokenizer."""
        dataset = cell.place.open()
        folder = self.runs.tokenizer(row, cell.place, dataset)
        tokenizer = load_tokenizer(folder, device=self.runs.device)
        held_out = dataset.split(HELD_OUT, seed=SPLIT_SEED)[1]
        measured = measure_tokenizer(tokenizer, held_out, path=str(folder), split="val")
        steps = tokenizer.extras.get("train", {}).get("steps", 0)
        return self._measured(cell, measured, steps)

    def _measured(
        self, cell: Cell, measured: TokenizerMeasurement, steps: int
    ) -> Iterator[ReproducedNumber]:
        is_one = len(measured.budgets) == 1
        for found in measured.budgets:
            if found.is_trained:
                budget = None if is_one else found.budget
                yield self._number(cell, budget, 1000 * found.mse, None, steps)

    def _successes(self, cell: Cell, row: PolicyRow) -> Iterator[ReproducedNumber]:
        """Success of a row's policy in closed loop."""
        policy = self.runs.policy(row, cell.place, cell.seed)
        steps = load_policy(policy).extras["train"]["steps"]
        for budget, mean, success in self._evaluate(cell, row):
            yield self._number(cell, budget, 100 * mean, success, steps)

    def _evaluate(self, cell: Cell, row: PolicyRow) -> Iterator[tuple[Budget, float, SuccessRate]]:
        """Budget, mean over tasks, and success over all episodes."""
        assert cell.temperature is not None
        how: dict[str, Any] = {"seed": cell.seed, "temperature": cell.temperature}
        if cell.place.benchmark is None:
            for result in self.runs.evaluate(cell.name, row, cell.place, **how).budgets:
                budget = result.budget if row.budgets else None
                yield budget, result.mean_success, result.success
            return
        for budget, found in self.runs.evaluate_benchmark(cell.name, row, cell.place, **how):
            assert found.mean_success is not None
            yield budget, found.mean_success, pooled_success(found)

    def _number(
        self, cell: Cell, budget: Budget, value: float, success: SuccessRate | None, steps: int
    ) -> ReproducedNumber:
        papers = self.table.numbers.get((cell.name, budget_name(budget)), {})
        return ReproducedNumber(
            *(cell.name, budget, cell.place.name, value),
            low=100 * success.low if success else None,
            high=100 * success.high if success else None,
            paper=papers.get(cell.place.benchmark or ""),
            steps=steps,
            temperature=cell.temperature,
            seed=cell.seed,
            episodes=self.runs.scale.episodes if success else None,
            settings=self.settings(cell),
        )


@dataclass(frozen=True)
class Cell:
    """A row on a place, with a seed and a temperature; None where nothing is sampled."""

    name: str
    place: Place
    seed: int
    temperature: float | None

    def __str__(self) -> str:
        sampled = "" if self.temperature is None else f", temperature {self.temperature:g}"
        return f"{self.name} on {self.place.name}, seed {self.seed}{sampled}"

    def is_of(self, number: ReproducedNumber) -> bool:
        """Whether a number of a record is one of this."""
        return (number.row, number.place, number.seed, number.temperature) == (
            *(self.name, self.place.name),
            *(self.seed, self.temperature),
        )
