"""How far each table has come: which of its rows are stored, of how many trainings, which not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.closed_loop import over_seeds
from benchmarks.markdown import paragraph, table
from benchmarks.policy_pusht import KEYPOINTS
from benchmarks.policy_robosuite import DEFAULT as ROBOSUITE_ROWS
from benchmarks.policy_robosuite import IMAGES
from benchmarks.policy_sweep import TABLES as SWEPT
from benchmarks.record import read_results
from benchmarks.row_commands import quoted
from benchmarks.tokenizer_rate_distortion import FITTED
from oatkit.jobs.paper_tables import PAPER_KINDS, paper_table

LIGHT = paper_table("light-policies")
FROM_IMAGES = ("bin", "fast", "quest", "oat", "oat-pow2")
"""Rows of the light table that are asked for from images too."""


@dataclass(frozen=True)
class Asked:
    """Rows that a table asks for on some data.

    Attributes:
        table: Name of the table.
        data: What the rows act on, or are errors on.
        source: Script and JSON file.
        rows: Names of the rows that are asked for.
        stored: Scheme to the number of its trainings that are stored.
        arguments: What the script is called with for this data.
    """

    table: str
    data: str
    source: str
    rows: tuple[str, ...]
    stored: Mapping[str, int]
    arguments: str = ""

    @property
    def lacking(self) -> list[str]:
        """Names of the rows of which nothing is stored."""
        return [row for row in self.rows if row not in self.stored]

    @property
    def command(self) -> str:
        """The command that measures what is lacking."""
        words = f"python -m benchmarks.{self.source}", self.arguments, "--only"
        return " ".join(word for word in (*words, quoted(self.lacking)) if word)


def stored_tables() -> str:
    """The section of the page: what is stored of every table, and the commands for the rest."""
    words = paragraph(
        "Not every row of a table decides a claim. These are all that are asked for: those that "
        "are stored, with the number of their trainings, and those that are not, with the commands "
        "that measure them by the recipe of today. Demonstrations of PushT and CR5 are not part of "
        "this repository."
    )
    asked = list(all_asked())
    rows = [(one.table, one.data, _counted(one), _named(one.lacking)) for one in asked]
    found = table(("table", "on", "stored", "not measured"), rows)
    commands = "\n".join(one.command for one in asked if one.lacking)
    code = f"\n```bash\n{commands}\n```\n" if commands else ""
    return f"\n## How far the tables have come\n\n{words}\n\n{found}\n{code}"


def all_asked() -> Iterator[Asked]:
    """What every table of light policies and of tokenizers asks for."""
    policies = read_results("policy_table")
    state, images = (trainings(policies.get(seen, {})) for seen in ("state", "images"))
    rows = tuple(LIGHT.all_rows)
    yield Asked("light-policies", "MetaWorld, state", "policy_table", rows, state)
    yield Asked(
        "light-policies", "MetaWorld, images", "policy_table", FROM_IMAGES, images, "--images"
    )
    arms = trainings(read_results("policy_robosuite"))
    yield Asked("light-policies", "robosuite, state", "policy_robosuite", ROBOSUITE_ROWS, arms)
    seen = trainings(read_results("policy_robosuite"), IMAGES)
    yield Asked(
        "light-policies", "robosuite, images", "policy_robosuite", ("oat",), seen, "--images"
    )
    for name in SWEPT:
        stored = trainings(read_results("policy_sweep").get(name, {}))
        arguments = f"--tables {name}"
        rows = tuple(paper_table(name).rows)
        yield Asked(name, "MetaWorld, state", "policy_sweep", rows, stored, arguments)
    rows, outlines = tuple(paper_table("pusht").all_rows), read_results("policy_pusht")
    for data, ending, flag in (("state", "", "--pusht"), ("keypoints", KEYPOINTS, "--zarr")):
        stored = trainings(outlines, ending)
        yield Asked("pusht", f"PushT, {data}", "policy_pusht", rows, stored, f"{flag} PATH")
    errors = read_results("tokenizer_rate_distortion")
    for data, words, flag in (
        ("metaworld", "MetaWorld", ""),
        ("pusht", "PushT", "--pusht PATH"),
        ("cr5", "CR5", "--cr5 PATH"),
    ):
        wanted = tuple(f"{data}/{FITTED if kind == 'fast' else kind}" for kind in PAPER_KINDS)
        known = {f"{data}/{name}": 1 for name in errors.get(data, {})}
        yield Asked("rate-distortion", words, "tokenizer_rate_distortion", wanted, known, flag)


def trainings(rows: Mapping[str, Any], ending: str = "") -> dict[str, int]:
    """Scheme to the number of its trainings.

    Args:
        rows: Label to row.
        ending: What the schemes end with, which is left out; others are not counted.
    """
    counted = {scheme: len(own) for scheme, own in over_seeds(rows).items()}
    return {
        scheme.removesuffix(ending): number
        for scheme, number in counted.items()
        if scheme.endswith(ending)
    }


def _counted(one: Asked) -> str:
    return ", ".join(f"`{row}` {one.stored[row]}" for row in one.rows if row in one.stored)


def _named(rows: Iterable[str]) -> str:
    return ", ".join(f"`{row}`" for row in rows)
