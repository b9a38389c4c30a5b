"""The minutes of a demo."""

from __future__ import annotations

import pytest

from oatkit.jobs.demo_plan import MIN_MINUTES, plan_for
from tests.jobs.tiny_demo import TINY


def test_the_plan_grows_with_the_minutes() -> None:
    short, long = plan_for(MIN_MINUTES), plan_for(20)
    for name in ("demonstrations", "tokenizer_minutes", "policy_until", "episodes"):
        assert getattr(short, name) < getattr(long, name)
    assert len(short.tasks) == len(long.tasks)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"minutes is {wrong}"):
            plan_for(wrong)


def test_a_chunk_has_as_many_tokens_as_the_largest_budget() -> None:
    assert plan_for(10).num_tokens == 8
    assert TINY.num_tokens == 2
