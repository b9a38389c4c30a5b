from __future__ import annotations

from oatkit.types import budget_name


def test_budgets_have_names_for_tables_and_files() -> None:
    assert [budget_name(budget) for budget in (1, 16, "auto", None)] == ["1", "16", "auto", "all"]
