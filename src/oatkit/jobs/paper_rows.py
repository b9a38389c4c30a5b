"""Whether a policy is a row of the paper's tables of success: only such rows are ranked.

is_paper_row(policy, "light-libero", budget=8)
"""

from __future__ import annotations

from oatkit.jobs.paper_tables import PAPER_TABLES
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.policies import Policy
from oatkit.types import Budget, Schedule

RANKED_TABLES = ("light-policies", "vlm-policies", "co-training")
"""Tables of the paper that have several benchmarks, and so ranks."""


def is_paper_row(
    policy: Policy, benchmark: str, budget: Budget = None, schedule: Schedule | None = None
) -> bool:
    """Whether the paper has a row of this tokenizer, policy and budget for a benchmark.

    How long something was trained is not asked: the paper states no numbers of steps.

    Args:
        policy: What acts, by the head and the decoding that it is evaluated with.
        benchmark: Name of a preset of `oatkit.evaluation.benchmark_presets`.
        budget: Number of tokens, "auto", or None for all.
        schedule: Generation schedule; the policy's own by default.
    """
    tables = (PAPER_TABLES[name] for name in RANKED_TABLES)
    rows = [row for one in tables if benchmark in one.benchmarks for row in one.rows.values()]
    return any(
        _has_tokens(policy, row, budget) and _has_policy(policy, row, schedule) for row in rows
    )


def _has_tokens(policy: Policy, row: PolicyRow, budget: Budget) -> bool:
    """Whether tokenizer and budget are those of a row."""
    tokenizer, config = policy.tokenizer, policy.tokenizer.codec.config
    wanted = {"nested_dropout": True, "refine": 0, **row.options}
    if row.decoding is not None:
        wanted["decoding"] = row.decoding
    return (
        tokenizer.kind == row.kind
        and all(getattr(config, name, value) == value for name, value in wanted.items())
        and (budget is None or budget in (row.budgets or (tokenizer.max_tokens,)))
    )


def _has_policy(policy: Policy, row: PolicyRow, schedule: Schedule | None) -> bool:
    """Whether a policy, the head that acts and the schedule are those of a row."""
    backbone = getattr(policy.net, "backbone", None)
    own = policy.tokenizer.schedule
    return (
        policy.kind == row.policy
        and (None if backbone is None else backbone.family.name) == row.family
        and policy.head == policy.heads[0]
        and policy.model.correct is None
        and (policy.schedule if schedule is None else schedule) == own
    )
