"""The minutes of a demo."""

from __future__ import annotations

import pytest

from oatkit.jobs.demo_plan import (
    MIN_MINUTES,
    MIN_POLICY_STEPS,
    MIN_TOKENIZER_STEPS,
    POLICY_KIND,
    plan_for,
)
from oatkit.tokenizers.kind_table import kind_named
from tests.jobs.tiny_demo import TINY


def test_the_plan_grows_with_the_minutes() -> None:
    short, long = plan_for(MIN_MINUTES), plan_for(20)
    for name in ("demonstrations", "tokenizer_steps", "policy_steps", "episodes"):
        assert getattr(short, name) < getattr(long, name)
    assert len(short.tasks) == len(long.tasks)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"minutes is {wrong}"):
            plan_for(wrong)


def test_no_demo_trains_too_little_for_its_success_to_mean_something() -> None:
    shortest = plan_for(MIN_MINUTES)
    assert shortest.tokenizer_steps >= MIN_TOKENIZER_STEPS
    assert shortest.policy_steps >= MIN_POLICY_STEPS


def test_the_only_learned_kind_is_that_of_the_policy() -> None:
    plan = plan_for(10)
    assert [kind for kind in plan.kinds if kind_named(kind).is_learned] == [POLICY_KIND]
    assert plan.execute == plan.horizon // 8


def test_a_chunk_has_as_many_tokens_as_the_largest_budget() -> None:
    assert plan_for(10).num_tokens == 8
    assert TINY.num_tokens == 2
