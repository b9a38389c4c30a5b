"""How many tokens a policy generates: the same type in code, records and JSON."""

from __future__ import annotations

from typing import Literal

Budget = int | Literal["auto"] | None
"""Number of tokens; "auto" where the policy decides when to stop; None for all of them."""

STOP_REASONS = ("all", "budget", "auto", "deadline")
"""Why no more tokens, or Euler steps, were made for a chunk: all of them are there, the budget is
spent, "auto" found the tokens certain enough by their entropy, or the deadline came near."""


def budget_order(budget: Budget) -> tuple[int, int]:
    """A key to sort by: numbers first, then all tokens, then "auto"."""
    if isinstance(budget, int):
        return 0, budget
    return (1 if budget is None else 2), 0


def budget_name(budget: Budget) -> str:
    """The budget as a word for tables and file names: `8`, `auto` or `all`."""
    return "all" if budget is None else str(budget)
