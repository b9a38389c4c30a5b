"""Rows of a sweep in closed loop as units of work; rows of one policy are one unit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oatkit.envs.simulator import SimulatorKind
from oatkit.jobs.evaluation_plan import make_rollout, plan_evaluation
from oatkit.jobs.evaluation_shards import EvaluationWork, merge_evaluation
from oatkit.jobs.policy_ablations import ClosedLoopAblation, PolicySweepPlan
from oatkit.jobs.policy_evaluation import acting_policy
from oatkit.nn.device import Device
from oatkit.shards import ShardNumber, ShardPlan, merge_folder, run_shard
from oatkit.storage.records import read_record, record_from_json, record_to_json, write_record
from oatkit.types import Execution, PolicyEvaluation, PolicySweep, PolicySweepRow, Sampling

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


def evaluate_alone(
    policy: Path,
    *,
    simulator: str | SimulatorKind,
    out: Path,
    execute: int,
    tasks: Sequence[str],
    episodes: int,
    workers: int | None,
    sampling: Sampling,
    device: Device,
    **_: Any,
) -> PolicyEvaluation:
    """Evaluate a policy as one shard of its own, whose record depends on nothing else that runs.

    The arguments are those of `evaluate`, of which a bar is not shown.
    """
    given = (None, None, None, 1, device, None)
    with acting_policy(policy, (None,), *given) as opened:
        rollout = make_rollout(opened, Execution(execute), sampling, (), None)
        work = EvaluationWork(
            plan_evaluation(opened, simulator, rollout, tasks),
            episodes=episodes,
            workers=workers or os.cpu_count() or 1,
        )
        run_shard(work, ShardNumber(0, 1), out)
    path = merge_folder(out, {work.name: lambda: merge_evaluation})
    return read_record(path, PolicyEvaluation)


def merge_policy_sweep(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join rows into the record of `oatkit policy sweep`, ablation by ablation."""
    rows = [
        record_from_json(PolicySweepRow, results[key][number])
        for key, number in plan.facts["order"]
    ]
    write_record(folder / RECORD, PolicySweep(plan.facts["data"], plan.settings, tuple(rows)))
    return folder / RECORD
