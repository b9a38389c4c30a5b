"""Budgets, schedules and deadlines that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.budget_limits import can_stop_early, resolve_budget
from oatkit.tokenizers import KINDS, ActionTokenizer
from oatkit.types import Budget, Schedule
from tests.policies import tiny


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("oat-pow2", {"budget": 0}, "budget 0 is outside 1 .. 8"),
        ("oat-pow2", {"budget": 9}, "budget 9 is outside 1 .. 8"),
        ("oat-pow2", {"budget": "all"}, "budget is 'all', expected a number of tokens or 'auto'"),
        ("oat-pow2", {"schedule": Schedule.one_shot(9)}, "the schedule ends at 9 tokens, oat-pow2"),
        (
            "oat-pow2",
            {"schedule": Schedule.pow2(4), "budget": 5},
            r"budget 5 is outside 1 \.\. 4, where the schedule ends at 4",
        ),
        ("oat-pow2", {"deadline_ms": 0}, "deadline_ms is 0, expected more than 0"),
        ("bin", {"budget": 5}, r"bin decodes only all of its tokens: budget 5 is none of \[24\]"),
        ("quest", {"budget": "auto"}, "quest decodes only all of its tokens: budget auto is none"),
        ("fast", {"budget": 3}, "fast decodes only all of its tokens: budget 3 is none of"),
    ],
)
@pytest.mark.filterwarnings("ignore:the policy was trained")
def test_bad_options(
    kind: str,
    options: dict[str, Any],
    message: str,
    policies: dict[str, Policy],
    dataset: Dataset,
) -> None:
    policy = policies[kind]
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(tiny.batch(policy, dataset), **options)


@pytest.mark.parametrize("kind", list(KINDS))
def test_all_tokens_are_always_allowed(kind: str, policies: dict[str, Policy]) -> None:
    tokenizer = policies[kind].tokenizer
    most = tokenizer.max_tokens
    for budget in (None, most):
        assert resolve_budget(tokenizer, tokenizer.schedule, budget) == most
    can_stop = all(_is_allowed(tokenizer, budget) for budget in range(1, most))
    assert can_stop_early(tokenizer) == can_stop == _is_allowed(tokenizer, "auto")


def _is_allowed(tokenizer: ActionTokenizer, budget: Budget) -> bool:
    try:
        resolve_budget(tokenizer, tokenizer.schedule, budget)
    except ValueError:
        return False
    return True
