"""The commands that measure rows as they are stored, and those that a claim lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import record, row_commands
from benchmarks.recipes_of_today import STEPS, TOKENIZER_STEPS
from benchmarks.row_commands import LightScript
from oatkit.jobs.paper_tables import TABLES, paper_table
from tests.benchmarks.test_recipes_of_today import stored

HALF = "horizons-half"


def save(name: str, rows: dict[str, Any]) -> None:
    record.write_result(name, seed=0, settings={}, results=rows)


def needs(*rows: str) -> str:
    return row_commands.light("policy_table", *rows)()


def test_stored_rows_are_trained_again_for_their_own_steps(results: Path) -> None:
    cells = [f"{horizon} actions, 8 tokens" for horizon in (8, 16, 32)]
    start = f"python -m benchmarks.policy_sweep --tables {HALF} --only"
    assert LightScript.named("policy_sweep", HALF).commands(cells) == [
        f'{start} "{cells[0]}" "{cells[1]}" "{cells[2]}"'
    ]
    rows = {cells[0]: stored("oat", tokenizer_steps=2000), cells[2]: stored("oat", steps=7)}
    save("policy_sweep", {HALF: rows})
    assert LightScript.named("policy_sweep", HALF).commands(cells) == [
        f'{start} "{cells[0]}" "{cells[1]}" --tokenizer-steps 2000',
        f'{start} "{cells[2]}" --steps 7',
    ]


def test_rows_that_are_lacking_are_trained_like_the_first_that_is_there(results: Path) -> None:
    assert needs("oat", "quest").endswith("`python -m benchmarks.policy_table --only oat quest`")
    old = stored("oat", tokenizer_steps=2000)
    save("policy_table", {"state": {"oat": old}})
    assert needs("oat", "quest").endswith(" --only quest --tokenizer-steps 2000`")
    assert needs("oat", "bin").endswith(" --only bin`"), "it has no training"
    save("policy_table", {"state": {"oat": old, "quest": stored("quest", tokenizer_steps=9)}})
    assert needs("oat", "quest").endswith(" --only quest --tokenizer-steps 2000 --again`")
    save("policy_table", {"state": {"oat": stored("oat", history=2)}})
    assert needs("oat", "quest").endswith(" --only oat quest --again`"), "no flag has frames"


def test_hours_are_those_of_the_quickest_stored_trainings(results: Path) -> None:
    assert "needs about 0.7 hours on two cores by estimate, " in needs("bin")
    row = stored("bin", steps=100, seconds=3600 * 100 / STEPS)
    save("policy_table", {"state": {"bin": row}})
    save("policy_robosuite", {"oat": stored("oat", seconds=7200.0)})
    hours = "hours on two cores to train, and episodes come on top, "
    save("tokenizer_rate_distortion", {"metaworld": {"oat": {"steps": 100, "seconds": 45.0}}})
    assert f"needs about {2 + 0.45 * TOKENIZER_STEPS / 3600:.1f} {hours}" in needs("oat")
    assert f"needs about {100 / STEPS:.1f} {hours}" in needs("bin")
    times = {"seconds": 3600.0, "tokenizer_seconds": 40.0}
    cell = stored("oat", steps=STEPS, tokenizer_steps=100, **times)
    slow = stored("bin", steps=100, seconds=7200.0)
    save("control", {"cells": {"oat/0/8": cell, "bin/0/8": slow}})
    assert f"needs about {1 + 0.40 * TOKENIZER_STEPS / 3600:.1f} {hours}" in needs("oat")
    assert f"needs about {100 / STEPS:.1f} {hours}" in needs("bin"), "the slow one does not count"


@pytest.mark.parametrize(("rows", "hours"), [(("vlm-ar/bin/qwen3-vl",), 1.1), (("a", "b"), 2.1)])
def test_rows_of_the_pipeline_have_the_estimate_of_their_table(
    results: Path, rows: tuple[str, ...], hours: float
) -> None:
    asked = " ".join(rows)
    assert row_commands.generating(*rows)() == (
        f"needs about {hours} hours on two cores by estimate, `python -m benchmarks.vlm_pipeline "
        f"--only {asked}`"
    )
    save("vlm_pipeline", {"policies": {rows[-1]: {}}})
    rest = rows[:-1] or rows
    assert row_commands.generating(*rows)().endswith(f" --only {' '.join(rest)}`")


def test_rows_of_the_pipeline_take_as_long_as_stored_ones_of_their_kind(results: Path) -> None:
    def row(minutes: float, steps: int) -> dict[str, Any]:
        return {"seconds": 60 * minutes, "settings": {"steps": steps}}

    kept = {"vlm-ar/bin/paligemma2": row(30, 1000), "vlm-tc/bin/qwen3-vl": row(1, 1000)}
    save("vlm_pipeline", {"policies": kept})
    said = row_commands.generating("vlm-ar/bin/qwen3-vl")()
    assert said.startswith("needs about 1.0 hours on two cores to train, and episodes come on top")
    assert "by estimate" in row_commands.generating("vlm-ar/bin/qwen3-vl", "vlm-ar/fast/qwen3-vl")()


def test_names_of_rows_are_words_of_a_shell() -> None:
    assert row_commands.quoted(["oat", "oat, 16 tokens"]) == 'oat "oat, 16 tokens"'


def test_hours_of_stored_trainings_stand_beside_the_estimate(results: Path) -> None:
    def said(name: str) -> str:
        return " ".join(row_commands.trained_hours(paper_table(name)).split())

    assert said("codebook") == ""
    save("policy_table", {"state": {"oat": stored("oat", seconds=3600.0)}})
    assert said("codebook") == "", "how long tokenizers take is not stored"
    errors = {"steps": TOKENIZER_STEPS, "seconds": 1800.0}
    save("tokenizer_rate_distortion", {"metaworld": {"oat": errors}})
    assert "Its policies and tokenizers alone train for about 7.5 hours" in said("codebook")
    assert said("light-policies") == "", "other kinds have no training"
    learned = dict.fromkeys(("oat", "oat-pow2", "quest", "acodec"), errors)
    save("tokenizer_rate_distortion", {"metaworld": learned})
    assert "Its tokenizers alone train for about 2.0 hours" in said("rate-distortion")
    assert said("vlm-policies") == said("method") == ""


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if not table.is_large])
def test_estimates_of_tables_hold_their_trainings(name: str) -> None:
    """Against the stored results: no less than the trainings alone, and not far more."""
    hours, one = row_commands.least_hours(paper_table(name)), paper_table(name)
    assert (hours is None) == (one.work == "nothing")
    if hours is not None:
        assert hours <= one.minutes / 60 <= 2 * hours + 0.5
