"""Rows of a table of the paper as units of work; all rows on one tokenizer are one unit.

FOLDER/rows/small-oat-.../metaworld/...     what the rows on a tokenizer train; see `row_runs.py`

Every unit has a folder of its own, so that no two shards train the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oatkit.jobs.evaluation_shards import evaluate_alone
from oatkit.jobs.paper_reproduction import Cell, ReproductionPlan
from oatkit.shards import ShardPlan
from oatkit.storage.records import record_from_json, record_to_json, write_record
from oatkit.types import ReproducedNumber, Reproduction

RECORD = "reproduction.json"


class ReproductionWork:
    """The rows of a table; see `oatkit.shards.Work`.

    Args:
        plan: What is made.
    """

    name = "reproduce"

    def __init__(self, plan: ReproductionPlan) -> None:
        self._plan = plan
        self._cells: dict[str, list[Cell]] = {}
        order = []
        for cell in plan.cells():
            key = f"{cell.place.name}/{self._tokenizer(cell)}"
            of_unit = self._cells.setdefault(key, [])
            order.append([key, len(of_unit)])
            of_unit.append(cell)
        runs = plan.runs
        self.settings: dict[str, Any] = {
            "table": plan.begun.table,
            **plan.begun.settings,
            "places": {place.name: place.open().fingerprint for place in plan.places},
            "rows": plan.names,
            "temperatures": plan.temperatures,
            "seeds": plan.seeds,
            "preset": runs.preset,
            "episodes": runs.scale.episodes,
            "tokenizer": dict(runs.scale.tokenizer),
            "policy": dict(runs.scale.policy),
            "backbones": dict(runs.backbones),
            "env_kwargs": dict(runs.env_kwargs),
        }
        self.facts: dict[str, Any] = {"order": order, "begun": record_to_json(plan.begun)}

    def units(self) -> Sequence[str]:
        return list(self._cells)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key in keys:
            cells = self._cells[key]
            own = folder / "rows" / self._tokenizer(cells[0])
            runs = replace(self._plan.runs, folder=own, evaluation=evaluate_alone)
            plan = replace(self._plan, runs=runs)
            yield key, [[record_to_json(number) for number in plan.numbers(c)] for c in cells]

    def _tokenizer(self, cell: Cell) -> str:
        """Name of what the cell's tokenizer is, which is a kind where kinds are compared."""
        if self._plan.table.work == "comparison":
            return cell.name
        row = self._plan.table.all_rows[cell.name]
        return self._plan.runs.tokenizer_dir(row, cell.place).name


def merge_reproduction(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join rows into the record of `oatkit reproduce`."""
    numbers = tuple(
        record_from_json(ReproducedNumber, number)
        for key, place in plan.facts["order"]
        for number in results[key][place]
    )
    begun = record_from_json(Reproduction, plan.facts["begun"])
    write_record(folder / RECORD, replace(begun, numbers=numbers))
    return folder / RECORD
