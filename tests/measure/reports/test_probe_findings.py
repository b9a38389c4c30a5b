"""Which kind and budget is recommended for a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oatkit.measure.reports.probe_findings import (
    best_for_policy,
    policy_sentence,
    probe_baselines,
    probe_cautions,
    probed_budgets,
    recommended,
)
from oatkit.types import Baseline
from tests.measure.reports.records import comparison, kind, probed

OAT, KLT, FAST = (kind(name, {1: 0.2, 4: 0.02, 8: 0.01}) for name in ("oat", "klt", "fast"))


def test_without_policies_nothing_is_recommended() -> None:
    made = comparison(OAT, KLT)
    assert (best_for_policy(made), policy_sentence(made)) == (None, None)
    assert (probed_budgets(made), probe_baselines(made), probe_cautions(made)) == ([], (), [])


@pytest.mark.parametrize(
    ("oat", "klt", "wanted"),
    [
        ({1: 0.3, 4: 0.1, 8: 0.05}, {1: 0.3, 4: 0.2, 8: 0.2}, ("oat", 8)),
        ({1: 0.3, 4: 0.051, 8: 0.05}, {1: 0.3, 4: 0.2, 8: 0.2}, ("oat", 4)),
        ({1: 0.3, 4: 0.1, 8: 0.05}, {1: 0.052, 4: 0.2, 8: 0.2}, ("klt", 1)),
        ({1: 0.0, 4: 0.0}, {1: 0.0}, ("oat", 1)),
    ],
)
def test_fewer_tokens_are_taken_where_they_are_as_good(
    oat: dict[int, float | None], klt: dict[int, float | None], wanted: tuple[str, int]
) -> None:
    best = recommended(comparison(probed(OAT, oat), probed(KLT, klt)))
    assert best is not None
    assert (best.kind, best.found.budget) == wanted


def test_the_sentence_names_all_others_at_their_best() -> None:
    made = comparison(
        probed(KLT, {1: 0.4, 4: 0.2}),
        probed(OAT, {1: 0.3, 4: 0.1}),
        probed(FAST, {8: None}),
        kind("bin", {16: 0.001}),
        policy_steps=1200,
    )
    assert policy_sentence(made) == (
        "For a policy: oat with 4 tokens, on which a small one leaves 10 % of the variance of "
        "held-out chunks after 1,200 steps, against at best 20 % on klt, nothing valid on fast."
    )
    assert [row.overlap for row in probed_budgets(made)] == [0.5] * 5


def test_nothing_is_recommended_where_no_policy_has_learned_anything() -> None:
    oat = probed(OAT, {1: 0.9, 4: 0.8})
    assert oat.policy is not None
    mean = replace(oat.policy, baselines=(Baseline("mean chunk", 0.8, 0.8),))
    made = comparison(replace(oat, policy=mean), policy_steps=60)
    assert recommended(made) is None
    assert policy_sentence(made) == (
        "For a policy: not known yet, because after 60 steps no small one errs less (8.00e-01 on "
        "oat) than always giving the mean chunk (8.00e-01)."
    )


def test_policies_that_lose_to_a_regression_are_not_believed() -> None:
    assert probe_cautions(comparison(probed(OAT, {1: 0.3, 4: 0.1}))) == []
    (said,) = probe_cautions(comparison(probed(OAT, {1: 0.3, 4: 0.2})))
    assert said.startswith(
        "No policy of this probe (at best 2.00e-01) beats a linear regression from the state "
        "(2.00e-01): more --policy-minutes"
    )
