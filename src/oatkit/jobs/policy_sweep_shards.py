"""Rows of a sweep in closed loop as units of work; rows of one policy are one unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oatkit.jobs.evaluation_shards import evaluate_alone
from oatkit.jobs.policy_ablations import ClosedLoopAblation, PolicySweepPlan
from oatkit.shards import ShardPlan
from oatkit.storage.records import record_from_json, record_to_json, write_record
from oatkit.types import PolicySweep, PolicySweepRow

RECORD = "sweep.json"


class PolicySweepWork:
    """The policies of a sweep; see `oatkit.shards.Work`.

    Args:
        plan: What is trained and evaluated.
    """

    name = "policy sweep"

    def __init__(self, plan: PolicySweepPlan) -> None:
        self._plan = plan
        self._rows: dict[str, list[ClosedLoopAblation]] = {}
        for row in plan.rows:
            self._rows.setdefault(row.name, []).append(row)
        self.settings: dict[str, Any] = plan.settings
        order = [[row.name, self._rows[row.name].index(row)] for row in plan.rows]
        self.facts: dict[str, Any] = {"data": plan.data, "order": order}

    def units(self) -> Sequence[str]:
        return list(self._rows)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        for key in keys:
            found = [
                self._plan.make_row(row, folder / key, evaluate_alone) for row in self._rows[key]
            ]
            yield key, [record_to_json(replace(row, seconds=0.0)) for row in found]


def merge_policy_sweep(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join rows into the record of `oatkit policy sweep`, ablation by ablation."""
    rows = [
        record_from_json(PolicySweepRow, results[key][number])
        for key, number in plan.facts["order"]
    ]
    write_record(folder / RECORD, PolicySweep(plan.facts["data"], plan.settings, tuple(rows)))
    return folder / RECORD
