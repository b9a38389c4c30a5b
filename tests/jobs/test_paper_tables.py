"""The list of the paper's tables and figures."""

from __future__ import annotations

import pytest

from oatkit.jobs.paper_tables import PAPER_TABLES, paper_table
from oatkit.presets import BENCHMARK_PRESETS
from oatkit.types import budget_name


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_every_number_of_the_paper_has_a_row_that_is_run(name: str) -> None:
    table = paper_table(name)
    assert table.title
    assert set(table.benchmarks) <= set(BENCHMARK_PRESETS)
    assert (table.work == "nothing") == bool(table.instead)
    if table.work == "policies":
        run = {
            (row, budget_name(budget))
            for row, policy in table.rows.items()
            for budget in policy.budgets or (None,)
        }
        assert set(table.numbers) == run
    for columns in table.numbers.values():
        assert set(columns) == set(table.benchmarks)


def test_rows_share_what_they_can() -> None:
    light, ordering = (paper_table(name).rows["oat"] for name in ("light-policies", "ordering"))
    assert light.policy_name == ordering.policy_name
    own, forced, _ = paper_table("grouped-generation").rows.values()
    assert own.policy_name == forced.policy_name
    assert own.tokenizer_name == paper_table("co-training").rows["qwen3-vl, oat"].tokenizer_name
    half, fixed = (paper_table(f"horizons-{name}").rows.values() for name in ("half", "fixed"))
    assert [row.policy_name for row in half] == [row.policy_name for row in fixed]
    assert {row.execute for row in fixed} == {8}
    assert paper_table("ordering").rows["oat, no nesting"].policy_name != light.policy_name


def test_an_unknown_table_is_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match="unknown table 'light'; known, closest first: light-pol"):
        paper_table("light")
