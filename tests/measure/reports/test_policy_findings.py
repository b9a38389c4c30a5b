"""What is said of a policy that is no better than nothing, or knows its episodes by heart."""

from __future__ import annotations

from dataclasses import replace

from oatkit.measure.reports.policy_findings import policy_cautions
from oatkit.types import Baseline, PolicyBudget, PolicyMeasurement, Sampling

BUDGETS = tuple(
    PolicyBudget(budget, budget, budget, mse, mse, 0.1, ()) for budget, mse in ((1, 4.0), (2, 2.0))
)
GOOD = PolicyMeasurement(
    *("p", "oat", "d", "val", 10, 5, 1.0, (), BUDGETS, None, 0.0, ()),
    baselines=(Baseline("hold", 3.0, 3.0), Baseline("ridge", 2.5, 2.5)),
    train_loss=0.9,
    sampling=Sampling(temperature=0),
)


def test_a_good_policy_needs_no_words() -> None:
    assert policy_cautions(GOOD) == []
    assert policy_cautions(replace(GOOD, baselines=(), train_loss=None)) == []


def test_all_that_it_does_not_beat_is_named_with_its_best_budget() -> None:
    worse = replace(GOOD, baselines=(Baseline("hold", 2.0, 2.0), Baseline("ridge", 1.5, 1.5)))
    assert policy_cautions(worse) == [
        "the policy's best error (2.00e+00, budget 2) does not beat holding the action before the "
        "chunk (2.00e+00) and a linear regression from the state (1.50e+00): it needs more steps, "
        "more episodes or more to see"
    ]
    (said,) = policy_cautions(replace(worse, sampling=Sampling()))
    assert said.endswith("sampling adds to its error, so measure it with --temperature 0 too")


def test_nothing_that_decodes_has_no_error_to_compare() -> None:
    assert policy_cautions(replace(GOOD, budgets=(replace(BUDGETS[0], mse=None),))) == []


def test_a_loss_far_above_that_of_training_is_named() -> None:
    (said,) = policy_cautions(replace(GOOD, train_loss=0.5))
    assert "the held-out loss (1.000) is far above that of the training episodes (0.500)" in said
    assert policy_cautions(replace(GOOD, train_loss=0.5, split="train")) == []
