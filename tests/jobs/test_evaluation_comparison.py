"""Evaluations are compared pair by pair."""

from __future__ import annotations

import pytest

from oatkit.jobs.evaluation_comparison import with_comparisons
from oatkit.types import Sampling
from tests.jobs.plane_evaluations import Eval


def test_budgets_and_policies_are_compared_on_the_same_episodes(run: Eval) -> None:
    first = run()
    second = run("b", sampling=Sampling(0))
    (own,) = second.comparisons
    assert (own.first, own.second) == ("1", "4")
    record = with_comparisons(second, [first])
    assert record.comparisons[0] == own
    pair = record.comparisons[-1]
    assert (pair.first, pair.second) == (f"{first.policy} at 4", f"{second.policy} at 4")
    assert pair.episodes == 6
    alone = {(e.task, e.episode): e.is_success for e in first.episodes if e.budget == 4}
    wins = sum(
        e.is_success and not alone[e.task, e.episode] for e in second.episodes if e.budget == 4
    )
    assert pair.only_second == wins


def test_other_seeds_have_no_pairs(run: Eval) -> None:
    with pytest.raises(ValueError, match="has no episode of the same seed"):
        with_comparisons(run("c", sampling=Sampling(seed=1)), [run()])
