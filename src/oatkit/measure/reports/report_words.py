"""How reports name things, in text and in charts alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oatkit.types import Budget, BudgetResult, PolicyEvaluation, budget_name


def fixed_budgets(record: PolicyEvaluation) -> list[BudgetResult]:
    """The results whose number of tokens was given."""
    return [result for result in record.budgets if result.budget != "auto"]


def acts_by_flow(record: PolicyEvaluation) -> bool:
    """Whether a flow expert acted, whose budgets are Euler steps."""
    return record.settings.get("head") == "flow"


def actor(record: PolicyEvaluation) -> str | None:
    """What acted, where it was not tokens: a flow expert, or a server that does not say what."""
    return {"flow": "flow expert", "server": "server"}.get(record.settings.get("head", "tokens"))


def has_budgets(record: PolicyEvaluation) -> bool:
    """Whether results are told apart by budgets; a flow expert usually has only one result."""
    return actor(record) is None or len(record.budgets) > 1


def result_name(record: PolicyEvaluation, budget: Budget) -> str:
    """Name of a result in tables and charts: its budget, or `flow` if that is all there is."""
    return budget_name(budget) if has_budgets(record) else str(record.settings["head"])


def axis_name(record: PolicyEvaluation) -> str:
    """Label of an axis that shows all results; empty where there is only that of a flow expert."""
    if not has_budgets(record):
        return ""
    return "budget, Euler steps" if acts_by_flow(record) else "budget, tokens"


def execution_words(record: PolicyEvaluation) -> str:
    """How chunks became actions: `16 of 32 steps executed`, and what was done beside it."""
    s = record.settings
    steps, horizon = s["execute"], s["horizon"]
    if steps == "auto":
        words = ["as many steps executed as the policy finds worth it"]
    elif horizon is None:  # a server that does not tell it
        words = [f"{'half' if steps is None else f'{steps} steps'} of each chunk executed"]
    else:
        words = [f"{steps} of {horizon} steps executed"]
    return ", ".join([*words, *rule_words(s)])


def rule_words(s: Mapping[str, Any]) -> list[str]:
    """How chunks followed one another, from the settings of an evaluation; empty where each simply
    followed the one before."""
    words = []
    if s.get("blend") is not None:
        words.append(f"averaged with older chunks (decay {s['blend']:g})")
    if s.get("delay"):
        words.append(f"{s['delay']} steps late" + ", committed" * s.get("commit", False))
    if s.get("draws", 1) > 1:
        words.append(f"the best of {s['draws']} draws")
    return words


def policy_names(records: Sequence[PolicyEvaluation]) -> list[str]:
    """Names of policies that are shown together, with all that tells one from another."""
    words = [execution_words(record) for record in records]
    return [
        f"{record.policy}{' by flow' * acts_by_flow(record)}"
        + (f" ({own})" if len(set(words)) > 1 else "")
        for record, own in zip(records, words, strict=True)
    ]


def maybe(value: float | None, how: str) -> str:
    """A number in a format such as `.3g`, or a dash where there is none."""
    return "-" if value is None else f"{value:{how}}"


def count_tokens(count: float) -> str:
    """A number of tokens in words: `1 token`, `5.12 tokens`."""
    return f"{count:.3g} token{'s' * (count != 1)}"


def means_of_acting(record: PolicyEvaluation, result: BudgetResult) -> str:
    """What the policy acted with: `8 tokens`, `5 Euler steps`, or `its flow expert`."""
    if not has_budgets(record):
        return f"its {actor(record)}"
    if acts_by_flow(record):
        return f"{result.calls:.3g} Euler step{'s' * (result.calls != 1)}"
    return count_tokens(result.tokens)


def tasks_of(budgets: Sequence[BudgetResult]) -> list[str]:
    """All tasks of the results, in order."""
    return list(dict.fromkeys(task.task for result in budgets for task in result.tasks))
