"""Evaluations in shards: the same bytes however they are cut, and the same outcome as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.jobs.evaluation_plan import make_rollout, plan_evaluation
from oatkit.jobs.evaluation_shards import EvaluationWork
from oatkit.jobs.opened_policy import open_for_evaluation
from oatkit.jobs.shard_table import MERGES
from oatkit.shards import ShardNumber, merge_folder, run_shard
from oatkit.storage.records import read_record
from oatkit.types import Execution, PolicyEvaluation, Sampling
from tests.evaluation.plane import PLANE
from tests.jobs.plane_evaluations import Eval, outcomes


def work(policy: Path, *, episodes: int = 2, workers: int = 1) -> EvaluationWork:
    opened = open_for_evaluation(policy, (1, 4))
    rollout = make_rollout(opened, Execution(None), Sampling(seed=0), (), None)
    plan = plan_evaluation(opened, PLANE, rollout, ("near", "far"))
    return EvaluationWork(plan, episodes=episodes, workers=workers)


def test_shards_and_workers_change_nothing(plane_policy: Path, tmp_path: Path, run: Eval) -> None:
    run_shard(work(plane_policy), ShardNumber(0, 1), tmp_path / "one")
    for index in (1, 0):
        run_shard(work(plane_policy, workers=2), ShardNumber(index, 2), tmp_path / "two")
    one, two = (merge_folder(tmp_path / name, MERGES) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    record, whole = read_record(one, PolicyEvaluation), run(episodes=2)
    assert outcomes(record) == outcomes(whole)
    assert record.settings == whole.settings
    assert [b.success for b in record.budgets] == [b.success for b in whole.budgets]
    assert record.comparisons == whole.comparisons
    assert (record.policy, record.latencies_ms) == (str(plane_policy), {})


def test_a_merge_of_different_runs_is_refused(plane_policy: Path, tmp_path: Path) -> None:
    run_shard(work(plane_policy), ShardNumber(0, 4), tmp_path)
    with pytest.raises(ShardError, match="holds another run"):
        run_shard(work(plane_policy, episodes=3), ShardNumber(1, 4), tmp_path)
    with pytest.raises(ShardError, match=r"lacks 6 of 8 units: near/budget-1/0001, "):
        merge_folder(tmp_path, MERGES)


def test_no_episodes(plane_policy: Path) -> None:
    with pytest.raises(ValueError, match="episodes is 0, expected 1 or more"):
        work(plane_policy, episodes=0)
