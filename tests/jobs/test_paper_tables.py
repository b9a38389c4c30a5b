"""The list of the paper's tables and figures."""

from __future__ import annotations

import pytest

from oatkit.evaluation.benchmark_presets import BENCHMARK_PRESETS
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES, paper_table
from oatkit.types import budget_name

CAPTIONS = """
fig:oat_prefix_reconstruction tab:tokenizer_comparison fig:oat_method fig:oat_attention_masks
algo:oat_tokenizer_training algo:oat_policy_inference fig:bar_patterns fig:evaluation_envs
tab:benchmark_setup tab:policy_backbones tab:method_setup fig:rate_distortion_curves
tab:oat_controlled_sim_real fig:vlm_bar_success_grid fig:vlm_tc_success_grid
fig:oat_ordering_ablation_plot fig:oat_ha_hl_ablation tab:oat_codebook_ablation tab:oat_posthoc_bar
appendix:fig:tc_training_interface appendix:tab:training_recipes appendix:tab:num_tokens
appendix:tab:simulation_benchmarking
"""


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_every_number_of_the_paper_has_a_row_that_is_run(name: str) -> None:
    table = paper_table(name)
    assert table.title
    assert set(table.benchmarks) <= set(BENCHMARK_PRESETS)
    assert (table.work == "nothing") == bool(table.instead) == bool(table.shown_by)
    if table.work == "policies":
        run = {
            (row, budget_name(budget))
            for row, policy in table.rows.items()
            for budget in policy.budgets or (None,)
        }
        assert set(table.numbers) == run
    if table.work == "tokenizers":
        assert {row for row, _ in table.numbers} == set(table.rows)
    assert not set(table.rows) & set(table.extras)
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


def test_fast_is_strict_in_the_light_table_and_mended_on_backbones() -> None:
    """The paper has it so at every scale, where presets of smaller ones are strict."""
    light = paper_table("light-policies")
    assert light.rows["fast"].decoding == "strict"
    assert light.extras["fast, relaxed"].decoding == "relaxed"
    for name in ("vlm-policies", "co-training"):
        for row in paper_table(name).rows.values():
            assert row.decoding == ("relaxed" if row.kind == "fast" else None)


def test_rows_beyond_the_papers_are_named() -> None:
    """Everything that stands beside the paper's table: other kinds, nesting, powers of two."""
    light = paper_table("light-policies")
    assert light.row_names == ("bin", "fast", "quest", "oat")
    assert {"acodec", "oat-pow2", "fast, relaxed", "oat, no nesting"} < set(light.extras)
    one = light.extras["oat, 16 tokens"]
    trained = light.extras["oat, 16 tokens, policy by powers of two"]
    forced = light.extras["oat, 16 tokens, powers of two at inference"]
    assert one.tokenizer_name == trained.tokenizer_name == forced.tokenizer_name
    assert one.policy_name == forced.policy_name != trained.policy_name
    assert trained.endpoints == forced.evaluate_by == (1, 2, 4, 8, 16)
    assert set(OWN_TABLES["pusht"].rows) == {"oat", "oat-pow2", "quest", "bin", "fast"}
    assert OWN_TABLES["pusht"].numbers == {}


def test_every_table_figure_and_algorithm_of_the_paper_is_listed() -> None:
    """The labels are those of all captions in the paper's source, appendix included."""
    found = [label for table in PAPER_TABLES.values() for label in table.labels]
    assert sorted(set(found)) == sorted(CAPTIONS.split())
    assert all(table.labels for table in PAPER_TABLES.values())


def test_an_unknown_table_is_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match="unknown table 'light'; known, closest first: light-pol"):
        paper_table("light")
