"""A table of the paper made again, row by row: demonstrations, tokenizers, policies, evaluation.

    record = reproduce("light-policies", "out/reproduction", scale="small")

`oatkit reproduce` calls this.

out/small/light-policies.json             the record; the same call again goes on
out/small/metaworld/tokenizers/...        what was trained, which tables share
out/small/metaworld/policies/...
out/small/metaworld/evaluations/...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from oatkit.data import Dataset
from oatkit.errors import OatkitError, unknown_name
from oatkit.evaluation.benchmark_statistics import pooled_success, ranked_rows
from oatkit.jobs.benchmark_evaluation import evaluate_benchmark
from oatkit.jobs.paper_tables import PaperTable, PolicyRow, paper_table
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.reproduction_scales import Place, Scale, find_places, ready_backbone, scale_named
from oatkit.jobs.tokenizer_comparison import compare
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.nn.device import Device
from oatkit.policies import load_policy
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.types import (
    BenchmarkRow,
    Budget,
    ReproducedNumber,
    Reproduction,
    Sampling,
    Schedule,
    SuccessRate,
    budget_name,
)


def reproduce(
    table: str,
    out: str | os.PathLike[str],
    *,
    scale: str = "small",
    only: Sequence[str] = (),
    data: Mapping[str, Path] | None = None,
    simulator_keys: Mapping[str, Sequence[str]] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    backbones: Mapping[str, str] | None = None,
    published: Path | None = None,
    images: bool = False,
    episodes: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    device: Device = "auto",
    show_progress: bool = False,
) -> Reproduction:
    """Make a table or figure of the paper again; the same call goes on where it stopped.

    Args:
        table: Name of `PAPER_TABLES`.
        out: Folder for records and everything that is trained.
        scale: "tiny", "small" or "paper"; see `reproduction_scales.py`.
        only: Names of rows; all by default.
        data: Benchmark to its demonstrations; the smaller scales make their own in MetaWorld.
        simulator_keys: Benchmark to the parts of praxis-eval's observation that are the state.
        env_kwargs: Arguments for praxis-eval's simulators.
        backbones: Family to a checkpoint other than the scale's.
        published: Folder of FAST's universal tokenizer; one is fitted on the data by default.
        images: Whether light policies read MetaWorld's camera at the smaller scales.
        episodes: Number of episodes of each task; the scale's by default.
        temperature: Sampling temperature; the scale's by default.
        seed: Seed of trainings and evaluations.
        workers: Number of simulator processes; one per core by default.
        device: Where networks run: "auto", "cpu", "cuda", "cuda:1" or "mps"; see `resolve_device`.
        show_progress: Whether to print what happens and to show bars.
    """
    wanted, size = paper_table(table), scale_named(scale)
    if wanted.work == "nothing":
        raise OatkitError(f"{table} has nothing to run: {wanted.instead}")
    for name in only:
        if name not in wanted.row_names:
            raise ValueError(unknown_name(f"row of {table}", name, wanted.row_names))
    size = size.changed(episodes, temperature)
    settings = {
        **{"scale": scale, "episodes": size.episodes, "temperature": size.temperature},
        **{"images": images, "seed": seed, "published": published is not None},
    }
    folder = Path(out) / scale
    how: dict[str, Any] = {"workers": workers, "show_progress": show_progress, "images": images}
    how["simulator_keys"] = simulator_keys
    places = find_places(wanted, size, folder / "data", data or {}, **how)
    given = (seed, backbones or {}, published, env_kwargs or {}, device, workers)
    console = Console(highlight=False, quiet=not show_progress)
    run = _Run(wanted, size, folder, *given, console)
    return run.finish(Reproduction(table, settings, package_versions()), places, only)


def record_path(record: Reproduction, out: str | os.PathLike[str]) -> Path:
    """Where the record of a table is kept."""
    images = "-images" if record.settings["images"] else ""
    return Path(out) / record.settings["scale"] / f"{record.table}{images}.json"


def summarize_table(record: Reproduction) -> tuple[list[BenchmarkRow], list[BenchmarkRow]]:
    """Averages over the columns and mean ranks of our rows, and of the same rows in the paper.

    Both are empty where there are no successes of several columns.
    """
    ours: dict[tuple[str, Budget], dict[str, float]] = {}
    papers: dict[tuple[str, Budget], dict[str, float]] = {}
    for number in record.numbers:
        if number.low is not None:
            key = number.row, number.budget
            ours.setdefault(key, {})[number.place] = number.value / 100
            if number.paper is not None:
                papers.setdefault(key, {})[number.place] = number.paper / 100
    if len({place for own in ours.values() for place in own}) < 2:
        return [], []
    return ranked_rows(ours), ranked_rows(papers)


@dataclass(frozen=True)
class _Run:
    """What decides how the rows of a table are made."""

    table: PaperTable
    scale: Scale
    folder: Path
    seed: int
    backbones: Mapping[str, str]
    published: Path | None
    env_kwargs: Mapping[str, Any]
    device: Device
    workers: int | None
    console: Console

    def finish(
        self, begun: Reproduction, places: Sequence[Place], only: Sequence[str]
    ) -> Reproduction:
        """Make what the record lacks, writing it anew after every row."""
        path = record_path(begun, self.folder.parent)
        record = read_or_begin(path, begun)
        for place in places:
            for row in only or self.table.row_names:
                self.console.rule(f"{begun.table}: {row} on {place.name}")
                if any(n.row == row and n.place == place.name for n in record.numbers):
                    self.console.print("done before")
                    continue
                found = tuple(self._numbers(row, place))
                record = replace(record, numbers=(*record.numbers, *found))
                write_record(path, record)
        return record

    def _numbers(self, name: str, place: Place) -> Iterator[ReproducedNumber]:
        if self.table.work == "tokenizers":
            return self._errors(name, place)
        return self._successes(name, self.table.rows[name], place)

    def _errors(self, kind: str, place: Place) -> Iterator[ReproducedNumber]:
        """Held-out errors of a kind of tokenizer; the comparison has its own report."""
        record = compare(
            place.open(),
            [kind],
            self.folder / place.name / "compared",
            preset=self.scale.preset(self.table),
            horizon=place.horizon,
            train={**self.scale.tokenizer, "seed": self.seed},
            device=self.device,
            show_progress=not self.console.quiet,
        )
        (measured,) = (k.measurement for k in record.kinds if k.measurement.kind == kind)
        is_one = len(measured.budgets) == 1
        for found in measured.budgets:
            if found.is_trained:
                budget = None if is_one else found.budget
                value = 1000 * found.mse
                yield self._number(kind, budget, place, value, None, record.steps.get(kind, 0))

    def _successes(self, name: str, row: PolicyRow, place: Place) -> Iterator[ReproducedNumber]:
        """Success of a row's policy in closed loop."""
        policy = self._ready_policy(row, place)
        steps = load_policy(policy).extras["train"]["steps"]
        for budget, mean, success in self._evaluate(name, row, place, policy):
            yield self._number(name, budget, place, 100 * mean, success, steps)

    def _number(
        self,
        row: str,
        budget: Budget,
        place: Place,
        value: float,
        success: SuccessRate | None,
        steps: int,
    ) -> ReproducedNumber:
        column = place.benchmark or ""
        papers = self.table.numbers.get((row, budget_name(budget)), {})
        return ReproducedNumber(
            *(row, budget, place.name, value),
            low=100 * success.low if success else None,
            high=100 * success.high if success else None,
            paper=papers.get(column),
            steps=steps,
            temperature=self.scale.temperature if success else None,
        )

    def _ready_tokenizer(self, row: PolicyRow, place: Place, dataset: Dataset) -> Path:
        """Folder of the tokenizer, which is trained unless it is there."""
        preset = self.scale.preset(self.table)
        out = self.folder / place.name / "tokenizers" / f"{preset}-{row.tokenizer_name}"
        if not (out / "config.json").exists():
            train_tokenizer(
                dataset,
                row.kind,
                out,
                preset=preset,
                published=self.published if row.kind == "fast" else None,
                train={**self.scale.tokenizer, "seed": self.seed},
                device=self.device,
                show_progress=not self.console.quiet,
                **{"horizon": place.horizon, **row.options},
            )
        return out

    def _ready_policy(self, row: PolicyRow, place: Place) -> Path:
        """Folder of the policy, which is trained unless it is there."""
        preset = self.scale.preset(self.table)
        out = self.folder / place.name / "policies" / f"{preset}-{row.policy_name}"
        if (out / "config.json").exists():
            return out
        dataset = place.open()
        tokenizer = self._ready_tokenizer(row, place, dataset)
        backbone = None
        if row.family is not None:
            folder = self.folder / place.name / "backbones"
            backbone = ready_backbone(row.family, self.scale, folder, dataset, self.backbones)
        train_policy(
            dataset,
            tokenizer,
            row.policy,
            out,
            backbone=backbone,
            preset=preset,
            cameras=place.cameras,
            train={**self.scale.policy, "seed": self.seed},
            device=self.device,
            show_progress=not self.console.quiet,
        )
        return out

    def _evaluate(
        self, name: str, row: PolicyRow, place: Place, policy: Path
    ) -> Iterator[tuple[Budget, float, SuccessRate]]:
        """Budget, mean over tasks, and success over all episodes."""
        out = self.folder / place.name / "evaluations" / policy.name / _folder_name(name)
        how: dict[str, Any] = {
            "sampling": Sampling(self.scale.temperature, seed=self.seed),
            "schedule": Schedule(row.evaluate_by) if row.evaluate_by else None,
            "execute": row.execute,
            "decoding": row.decoding,
            "episodes": self.scale.episodes,
            "device": self.device,
        }
        if place.benchmark is None:
            record = evaluate(
                policy,
                "metaworld",
                budgets=row.budgets,
                out=out,
                workers=self.workers,
                show_progress=not self.console.quiet,
                **how,
            )
            for result in record.budgets:
                budget = result.budget if row.budgets else None
                yield budget, result.mean_success, result.success
            return
        for budget in row.budgets or (None,):
            found = evaluate_benchmark(
                policy,
                place.benchmark,
                out=out / f"budget-{budget_name(budget)}",
                budget=budget,
                state_keys=place.simulator_keys,
                env_kwargs=self.env_kwargs,
                num_parallel=self.workers or 1,
                **how,
            )
            assert found.mean_success is not None
            yield budget, found.mean_success, pooled_success(found)


def _folder_name(row: str) -> str:
    """The name of a row without spaces and commas."""
    return row.replace(", ", "-").replace(" ", "_")
