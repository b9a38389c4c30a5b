"""What the sections on LIBERO say of results."""

from __future__ import annotations

from typing import Any

from benchmarks.report_libero import libero

RATE = {"successes": 3, "episodes": 10, "rate": 0.3, "low": 0.1, "high": 0.6}
POLICY = {
    "kind": "oat",
    "steps": 2500,
    "settings": {"execute": 16, "sampling": {"temperature": 0.0}},
    "budgets": [{"budget": 8, "success": RATE, "tasks": [{"task": "pick_it", "success": RATE}]}],
}


def record(assets: str, **policy: Any) -> dict[str, Any]:
    expert = {"pick_it": {"solved": 4, "failed": 1}, "place_it": {"solved": 0, "failed": 3}}
    settings = {"suite": "libero-object", "episodes": 4, "assets": assets}
    return {"settings": settings, "results": {"expert": expert, **policy}}


def test_repaired_assets_are_named_in_the_title_and_in_words() -> None:
    text = libero(record("repaired"))
    assert text.startswith("## LIBERO, repaired assets: libero-object\n")
    assert "not results on LIBERO itself" in " ".join(text.split())
    assert libero(record("official")).startswith("## LIBERO: libero-object\n")


def test_expert_and_policy_stand_side_by_side() -> None:
    text = libero(record("repaired", policy=POLICY))
    assert "| task | expert | policy, 8 tokens |" in text
    assert "| pick it | 4 of 5 | 3 of 10 |" in text
    assert "| place it | 0 of 3 | |" in text
    assert "`oat` tokens is trained for 2,500 steps" in " ".join(text.split())


def test_a_recipe_is_told_where_it_was_kept() -> None:
    recipe = {"preset": "small", "steps": 4000, "seconds": 720.0, "tokenizer_steps": 8000}
    without = {key: value for key, value in POLICY.items() if key != "steps"}
    text = " ".join(libero(record("official", policy={**without, "recipe": recipe})).split())
    assert "A light policy of the preset `small` from the state on `oat` tokens is trained" in text
    assert (
        "for 4,000 steps (12 minutes) on its successes, its tokenizer for 8,000, and acts" in text
    )


def test_runs_from_before_the_arm_was_displaced_say_so() -> None:
    found = record("official")
    words = "before demonstrations began with the arm displaced"
    assert words in " ".join(libero(found).split())
    found["settings"]["arm_noise"] = 0.02
    assert words not in " ".join(libero(found).split())
