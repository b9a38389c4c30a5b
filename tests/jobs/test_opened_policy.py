"""What an evaluation knows of a policy that runs in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

import oatkit
from oatkit.jobs.opened_policy import open_for_evaluation
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.types import Schedule


def test_a_folder_and_a_policy_are_known_alike(plane_policy: Path) -> None:
    policy = oatkit.load_policy(plane_policy)
    given, opened = (open_for_evaluation(p, (1, None)) for p in (policy, plane_policy))
    assert given.acting is policy
    assert (given.name, opened.name) == ("light", str(plane_policy))
    assert given.budgets == opened.budgets == (1, 4)
    assert (given.kind, given.horizon, given.action_dim) == ("klt", 8, 2)
    assert given.digest == opened.digest == policy.digest
    assert given.scale == tuple(policy.tokenizer.normalizer.scale.tolist())
    assert given.state_keys == ("observation.state", "observation.environment_state")
    assert (given.fps, given.head, given.has_execute_steps) == (10.0, None, False)
    assert given.device == "the CPU"


def test_budgets_are_those_of_the_policy(plane_policy: Path) -> None:
    policy = oatkit.load_policy(plane_policy)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        open_for_evaluation(policy, ("auto",))
    policy.auto = AutoThresholds()
    assert open_for_evaluation(policy, ("auto", None)).budgets == ("auto", 4)
    shorter = open_for_evaluation(policy, (None,), schedule=Schedule((1, 2)))
    assert shorter.budgets == (2,)
