"""Recipes of the flow expert: fair, run seed by seed, reported with every seed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from benchmarks.report_expert import vlm_expert
from benchmarks.vlm_expert import KINDS, RECIPES, ExpertOptions, rows, ways_of_acting


def test_all_recipes_have_the_same_number_of_steps() -> None:
    shares = {name: sum(stage.share for stage in stages) for name, stages in RECIPES.items()}
    assert all(math.isclose(share, 1.5) for share in shares.values()), shares


def test_every_cell_has_a_seed_before_any_has_two() -> None:
    found = list(rows(ExpertOptions(seeds=(0, 1))))
    half = len(found) // 2
    assert [row.seed for row in found] == [0] * half + [1] * half
    assert len({row.name for row in found}) == len(found)
    assert {row.kind for row in found if row.recipe.startswith("co-trained")} == set(KINDS)
    assert {row.kind for row in found if row.recipe.startswith("flow")} == {""}


def test_the_page_shows_all_seeds_together_and_each() -> None:
    def row(seed: int, successes: int) -> dict[str, object]:
        success = {"all": {"successes": successes, "episodes": 10, "rate": successes / 10}}
        return {
            **{"recipe": "co-trained", "kind": "oat", "family": "paligemma2", "seed": seed},
            **{"steps": 1000, "batch_size": 32, "episodes": 5},
            "success": {
                "flow, deterministic": success,
                "flow, deterministic, 1 steps": success,
                "tokens, deterministic, budget 1": success,
                "tokens, deterministic, budget auto": success,
            },
        }

    text = vlm_expert({"results": {"rows": {"a": row(0, 2), "b": row(1, 6)}}})
    assert "| co-trained | `oat` | `paligemma2` | 2 | 40.0 (22 - 61): 20.0, 60.0 |" in text
    assert "1500 steps of batch 32" in text
    assert "`fast` has" not in text
    strict = {**row(0, 2), "kind": "fast", "settings": {"decoding": "strict"}}
    assert "`fast` has strict decoding." in vlm_expert({"results": {"rows": {"a": strict}}})
    assert "fewer Euler steps" in text
    both = "40.0 (22 - 61): 20.0, 60.0"
    assert f"| co-trained | `oat` | `paligemma2` | {both} | | | | {both} |" in text


def test_budgets_are_ways_of_the_head_that_has_them() -> None:
    options = ExpertOptions(euler_steps=(2,), token_budgets=(1, "auto"))
    found = {
        head: [(way, budget) for way, _, _, budget in ways_of_acting(cast(Any, policy), options)]
        for head in ("tokens", "flow")
        for policy in [SimpleNamespace(heads=(head,))]
    }
    assert found["tokens"][2:] == [
        ("tokens, deterministic, budget 1", 1),
        ("tokens, deterministic, budget auto", "auto"),
    ]
    assert found["flow"][2:] == [("flow, deterministic, 2 steps", 2)]
