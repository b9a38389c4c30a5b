"""How the parts of an evaluation are called, in text and in charts alike."""

from __future__ import annotations

from oatkit.types import PolicyEvaluation


def budget_name(budget: int | None) -> str:
    return "auto" if budget is None else str(budget)


def acts_by_flow(record: PolicyEvaluation) -> bool:
    """Whether a flow expert acted, which has no budgets."""
    return record.settings.get("head") == "flow"


def result_name(record: PolicyEvaluation, budget: int | None) -> str:
    """The budget, or what acts without one."""
    return "flow" if acts_by_flow(record) else budget_name(budget)
