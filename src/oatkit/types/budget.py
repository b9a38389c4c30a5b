"""How many tokens a policy generates: the same type in code, records and JSON."""

from __future__ import annotations

from typing import Literal

Budget = int | Literal["auto"] | None
"""Number of tokens; "auto" where the policy decides when to stop; None for all of them."""


def budget_order(budget: Budget) -> tuple[int, int]:
    """A key to sort by: numbers first, then all tokens, then "auto"."""
    if isinstance(budget, int):
        return 0, budget
    return (1 if budget is None else 2), 0


def budget_name(budget: Budget) -> str:
    """The budget as a word for tables and file names: `8`, `auto` or `all`."""
    return "all" if budget is None else str(budget)
