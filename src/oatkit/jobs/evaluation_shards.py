"""Episodes of an evaluation as units of work: a task at a budget, one episode.

Every episode is predicted alone and no times are kept, so that a record depends on its key and not
on what ran beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oatkit.envs.simulator import SimulatorKind
from oatkit.evaluation.episode_runner import TIMEOUT_S, EpisodeRunner
from oatkit.evaluation.rollout import EpisodePlan
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.jobs.evaluation_plan import EvaluationPlan, make_rollout, plan_evaluation
from oatkit.jobs.policy_evaluation import RECORD, acting_policy, summarized
from oatkit.shards import ShardNumber, ShardPlan, merge_folder, run_shard
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_record, record_from_json, record_to_json, write_record
from oatkit.types import (
    Budget,
    Decoding,
    EpisodeResult,
    Execution,
    PolicyEvaluation,
    Sampling,
    Schedule,
    budget_name,
)

if TYPE_CHECKING:  # a policy elsewhere is evaluated without torch
    from oatkit.nn.device import Device


class EvaluationWork:
    """The episodes of an evaluation; see `oatkit.shards.Work`.

    Args:
        plan: What the episodes are.
        episodes: Number of episodes of each task and budget.
        workers: Number of simulator processes.
        timeout_s: Seconds after which a silent simulator process is killed and started again.
    """

    name = "policy eval"

    def __init__(
        self,
        plan: EvaluationPlan,
        *,
        episodes: int,
        workers: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if episodes < 1:
            raise ValueError(f"episodes is {episodes}, expected 1 or more")
        self._plan = plan
        self._workers = workers
        self._timeout_s = timeout_s
        self._episodes = {
            f"{task}/budget-{budget_name(budget)}/{episode:04d}": EpisodePlan(task, budget, episode)
            for task in plan.tasks
            for budget in plan.policy.budgets
            for episode in range(episodes)
        }
        self.settings: dict[str, Any] = plan.settings()
        self.facts: dict[str, Any] = {
            "policy": plan.policy.name,
            "kind": plan.policy.kind,
            "fps": plan.simulator.fps,
            "versions": package_versions(),
        }

    def units(self) -> Sequence[str]:
        return list(self._episodes)

    def run(self, keys: Sequence[str], folder: Path) -> Iterator[tuple[str, Any]]:
        plan = self._plan
        runner = EpisodeRunner(
            plan.policy.acting,
            plan.simulator,
            plan.rollout,
            num_workers=self._workers,
            timeout_s=self._timeout_s,
            is_alone=True,
        )
        names = {(e.task, e.budget, e.episode): key for key, e in self._episodes.items()}
        with closing(runner.run([self._episodes[key] for key in keys])) as results:
            for result in results:
                key = names[result.task, result.budget, result.episode]
                yield key, record_to_json(replace(result, latency_ms=0.0, repeats=0))


def merge_evaluation(plan: ShardPlan, results: dict[str, Any], folder: Path) -> Path:
    """Join episodes into the record of `oatkit policy eval`."""
    record = PolicyEvaluation(
        policy=plan.facts["policy"],
        kind=plan.facts["kind"],
        settings=plan.settings,
        versions=plan.facts["versions"],
        episodes=tuple(record_from_json(EpisodeResult, value) for value in results.values()),
    )
    path = folder / RECORD
    write_record(path, with_comparisons(summarized(record, plan.facts["fps"])))
    return path


def evaluate_alone(
    policy: Path,
    simulator: str | SimulatorKind,
    *,
    out: Path,
    tasks: Sequence[str] = (),
    episodes: int,
    budgets: Sequence[Budget] = (),
    execute: int | None,
    decoding: Decoding | None = None,
    schedule: Schedule | None = None,
    sampling: Sampling,
    workers: int | None,
    device: Device,
    show_progress: bool = False,
) -> PolicyEvaluation:
    """Evaluate a policy as one shard of its own, whose record depends on nothing else that runs.

    The arguments are those of `evaluate`, of which a bar is not shown.
    """
    with acting_policy(policy, budgets, schedule, None, decoding, device, None) as opened:
        rollout = make_rollout(opened, Execution(execute), sampling, (), schedule)
        work = EvaluationWork(
            plan_evaluation(opened, simulator, rollout, tasks),
            episodes=episodes,
            workers=workers or num_cores(),
        )
        run_shard(work, ShardNumber(0, 1), out)
    path = merge_folder(out, {work.name: lambda: merge_evaluation})
    return read_record(path, PolicyEvaluation)
