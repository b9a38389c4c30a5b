"""Rows of a sweep of tokenizers as units of work; rows of one training are one unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oatkit.jobs.tokenizer_ablations import TokenizerAblation, TokenizerSweepPlan
from oatkit.shards import ShardPlan
from oatkit.storage.records import record_from_json, record_to_json, write_record
from oatkit.types import SweepRow, TokenizerSweep

RECORD = "sweep.json"


class TokenizerSweepWork:
    """The trainings of a sweep; see `oatkit.shards.Work`.

    Args:
        plan: What is trained and measured.
    """

    name = "tokenizer sweep"

    def __init__(self, plan: TokenizerSweepPlan) -> None:
        self._plan = plan
        self._rows: dict[str, list[TokenizerAblation]] = {}
        for row in plan.rows():
            self._rows.setdefault(row.name, []).append(row)
        self.settings: dict[str, Any] = plan.settings()
        order = [[row.name, row.ablation] for row in plan.rows()]
        self.facts: dict[str, Any] = {"data": str(plan.dataset.path), "order": order}

    def units(self) -> Sequence[str]:
        return list(self._rows)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key in keys:
            rows = self._rows[key]
            found = replace(self._plan.train_row(rows[0], folder / key), seconds=0.0)
            yield key, [record_to_json(replace(found, ablation=row.ablation)) for row in rows]


def merge_tokenizer_sweep(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join rows into the record of `oatkit tokenizer sweep`, ablation by ablation."""
    found = {(key, row["ablation"]): row for key, rows in results.items() for row in rows}
    rows = [record_from_json(SweepRow, found[key, name]) for key, name in plan.facts["order"]]
    write_record(folder / RECORD, TokenizerSweep(plan.facts["data"], plan.settings, tuple(rows)))
    return folder / RECORD
