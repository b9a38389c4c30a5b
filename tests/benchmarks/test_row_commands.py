"""The commands that measure rows as they are stored, and those that a claim lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import record, row_commands
from benchmarks.recipes_of_today import STEPS, TOKENIZER_STEPS
from benchmarks.row_commands import LightScript
from oatkit.jobs.paper_tables import paper_table
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


def test_hours_are_those_of_stored_trainings(results: Path) -> None:
    assert "needs about 1.4 hours of two cores by estimate, " in needs("bin")
    row = stored("bin", steps=100, seconds=3600 * 100 / STEPS)
    save("policy_table", {"state": {"bin": row}})
    save("policy_robosuite", {"oat": stored("oat", seconds=7200.0)})
    hours = "hours of two cores to train, and episodes come on top, "
    save("tokenizer_rate_distortion", {"metaworld": {"oat": {"steps": 100, "seconds": 45.0}}})
    assert f"needs about {2 + 0.45 * TOKENIZER_STEPS / 3600:.1f} {hours}" in needs("oat")
    assert f"needs about {100 / STEPS:.1f} {hours}" in needs("bin")


@pytest.mark.parametrize(("rows", "hours"), [(("vlm-ar/bin/qwen3-vl",), 1.1), (("a", "b"), 2.1)])
def test_rows_of_the_pipeline_have_the_estimate_of_their_table(
    results: Path, rows: tuple[str, ...], hours: float
) -> None:
    asked = " ".join(rows)
    assert row_commands.generating(*rows)() == (
        f"needs about {hours} hours of two cores by estimate, `python -m benchmarks.vlm_pipeline "
        f"--only {asked}`"
    )
    save("vlm_pipeline", {"policies": {rows[-1]: {}}})
    rest = rows[:-1] or rows
    assert row_commands.generating(*rows)().endswith(f" --only {' '.join(rest)}`")


def test_names_of_rows_are_words_of_a_shell() -> None:
    assert row_commands.quoted(["oat", "oat, 16 tokens"]) == 'oat "oat, 16 tokens"'


def test_hours_of_stored_trainings_stand_beside_the_estimate(results: Path) -> None:
    def said(name: str) -> str:
        return " ".join(row_commands.trained_hours(name, paper_table(name)).split())

    assert said("codebook") == ""
    rows = {name: stored("oat", seconds=1800.0) for name in list(paper_table("codebook").rows)[:3]}
    save("policy_sweep", {"codebook": rows})
    hours = "of its {} rows that differ in training took {} hours, for the steps that they had."
    assert said("codebook").endswith(f"trainings of 3 {hours.format(5, 1.5)}")
    save("tokenizer_rate_distortion", {"metaworld": {"fast, fitted": {"seconds": 360.0}}})
    assert said("rate-distortion").endswith(f"trainings of 1 {hours.format(6, 0.1)}")
