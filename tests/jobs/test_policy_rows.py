"""Rows that can share a tokenizer or a policy have the same names for it."""

from __future__ import annotations

from dataclasses import replace

from oatkit.jobs.policy_rows import PolicyRow

ROW = PolicyRow("oat", (1, 8), {"num_tokens": 8, "levels": (8, 5, 5, 5)})


def test_names_say_what_is_not_the_presets() -> None:
    assert ROW.tokenizer_name == "oat-num_tokens8-levels8555"
    assert ROW.policy_name == "light-oat-num_tokens8-levels8555"
    assert PolicyRow("bin", policy="vlm-ar", family="qwen3-vl").policy_name == "vlm-ar-qwen3-vl-bin"


def test_what_is_trained_otherwise_has_another_name() -> None:
    long = replace(ROW, tokenizer_steps=9)
    assert long.tokenizer_name == f"{ROW.tokenizer_name}-steps9"
    short = replace(ROW, steps=7)
    assert short.tokenizer_name == ROW.tokenizer_name
    assert short.policy_name == f"{ROW.policy_name}-policy_steps7"
    grouped = replace(ROW, endpoints=(1, 2, 8))
    assert grouped.tokenizer_name == ROW.tokenizer_name
    assert grouped.policy_name == f"{ROW.policy_name}-by1_2_8"
    corrected = replace(ROW, offset_layers=3)
    assert corrected.tokenizer_name == ROW.tokenizer_name
    assert corrected.policy_name == f"{ROW.policy_name}-offset3"


def test_evaluations_share_the_policy() -> None:
    for change in ({"evaluate_by": (1, 8)}, {"execute": 3}, {"budgets": ()}):
        assert replace(ROW, **change).policy_name == ROW.policy_name
