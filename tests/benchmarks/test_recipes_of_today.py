"""Which stored rows the page says to have the recipe of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import recipes_of_today, record
from benchmarks.recipes_of_today import STEPS, TOKENIZER_STEPS
from oatkit.jobs.paper_tables import paper_table

LIGHT = paper_table("light-policies").all_rows


def stored(name: str, **changes: Any) -> dict[str, Any]:
    """A row of light policies by the recipe of today, but for some changes."""
    now = recipes_of_today.todays_recipe(LIGHT[name])
    return {
        **{"steps": now["steps"], "tokenizer_steps": now["tokenizer steps"] or 0},
        **{"batch_size": now["batch size"], "history": now["frames"]},
        **{"code_smoothing": now["code smoothing"], "offset_layers": now["offset layers"]},
        **{"kind": LIGHT[name].kind, "protocol": {"sampling": {"temperature": 0.0}}, **changes},
    }


def test_what_has_changed_since_a_row_was_stored() -> None:
    for name, row in LIGHT.items():
        assert recipes_of_today.changes_since(stored(name), row) == {}
    then = stored("oat", tokenizer_steps=2000, history=2)
    assert recipes_of_today.changes_since(then, LIGHT["oat"]) == {
        "tokenizer steps": (2000, TOKENIZER_STEPS),
        "frames": (2, 1),
    }


def test_rows_are_named_with_what_has_changed(results: Path) -> None:
    assert recipes_of_today.recipes_of_today() == ""
    rows = {"oat": stored("oat"), "quest, seed 1": stored("quest", tokenizer_steps=2000)}
    record.write_result("policy_table", seed=0, settings={}, results={"state": rows})
    images = {"bin, images": stored("bin", steps=226)}
    record.write_result("policy_robosuite", seed=0, settings={}, results=images)
    errors = {"oat": {"steps": TOKENIZER_STEPS}, "fast, fitted": {"steps": 0}, "splits": {}}
    record.write_result("tokenizer_rate_distortion", seed=0, settings={}, results={"cr5": errors})
    said = recipes_of_today.recipes_of_today()
    assert "today: `oat` of `policy_table`; `cr5/fast, fitted`, `cr5/oat` of" in " ".join(
        said.split()
    )
    changed = f"tokenizer steps 2000, now {TOKENIZER_STEPS}"
    assert f"| {changed} | `quest, seed 1` of `policy_table` |" in said
    assert f"| steps 226, now {STEPS} | `bin, images` of `policy_robosuite` |" in said
