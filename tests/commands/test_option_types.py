"""How options are read: wrong values are answered with the right ones, in help and in errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import tyro

from oatkit.commands.option_types import option_types


@dataclass(frozen=True)
class Options:
    """Options of every type that commands have."""

    steps: int | None = None
    rate: float = 0.5
    preset: Literal["tiny", "small", "paper"] = "small"
    decoding: Literal["strict", "relaxed"] | None = None
    execute: int | Literal["auto"] | None = None
    budgets: tuple[int | Literal["auto"] | None, ...] = ()
    out: Path | None = None


def parse(*args: str) -> Options:
    return tyro.cli(Options, args=list(args), registry=option_types())


def test_values_are_of_their_types() -> None:
    assert parse() == Options()
    given = parse(
        *("--steps", "3", "--rate", "1", "--preset", "tiny", "--decoding", "strict"),
        *("--execute", "auto", "--budgets", "1", "auto", "8", "--out", "a/b"),
    )
    assert given == Options(3, 1.0, "tiny", "strict", "auto", (1, "auto", 8), Path("a/b"))
    assert parse("--execute", "8").execute == 8
    assert parse("--steps", "None").steps is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--steps", "many"], "Error parsing --steps: 'many' is not a whole number"),
        (["--rate", "fast"], "Error parsing --rate: 'fast' is not a number"),
        (["--preset", "tny"], "unknown value 'tny'; known, closest first: tiny, paper, small"),
        (["--decoding", "strikt"], "unknown value 'strikt'; known, closest first: strict, relaxed"),
        (["--execute", "soon"], "Error parsing --execute: 'soon' is not INT|auto"),
        (["--budgets", "1", "many"], "Error parsing --budgets: 'many' is not INT|auto"),
    ],
)
def test_a_wrong_value_is_answered_in_words(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(*args)
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_help_names_what_may_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    for line in (
        *("--steps INT ", "--rate FLOAT ", "--preset {tiny,small,paper}", "--out PATH "),
        *(
            "--decoding {strict,relaxed}",
            "--execute INT|auto",
            "--budgets [INT|auto [INT|auto ...]]",
        ),
    ):
        assert line in shown, line
    assert "{None}" not in shown
