"""How reports name things, in text and in charts alike."""

from __future__ import annotations

from collections.abc import Sequence

from oatkit.types import Budget, BudgetResult, PolicyEvaluation, budget_name


def fixed_budgets(record: PolicyEvaluation) -> list[BudgetResult]:
    """The results whose number of tokens was given."""
    return [result for result in record.budgets if result.budget != "auto"]


def acts_by_flow(record: PolicyEvaluation) -> bool:
    """Whether a flow expert acted, which has no budgets."""
    return record.settings.get("head") == "flow"


def result_name(record: PolicyEvaluation, budget: Budget) -> str:
    """Name of a result in tables and charts: its budget, or what acts without one."""
    return "flow" if acts_by_flow(record) else budget_name(budget)


def axis_name(record: PolicyEvaluation) -> str:
    """Label of an axis that shows all results; empty for a flow expert, which has only one."""
    return "" if acts_by_flow(record) else "budget, tokens"


def count_tokens(count: float) -> str:
    """A number of tokens in words: `1 token`, `5.12 tokens`."""
    return f"{count:.3g} token{'s' * (count != 1)}"


def means_of_acting(record: PolicyEvaluation, result: BudgetResult) -> str:
    """What the policy acted with: `8 tokens`, or `its flow expert`."""
    return "its flow expert" if acts_by_flow(record) else count_tokens(result.tokens)


def tasks_of(budgets: Sequence[BudgetResult]) -> list[str]:
    """All tasks of the results, in order."""
    return list(dict.fromkeys(task.task for result in budgets for task in result.tasks))
