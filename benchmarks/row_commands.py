"""The commands that measure rows again, or for the first time, and about how long they take.

Rows of light policies are trained for as many steps as the stored ones that they stand beside.
Their hours are those of the quickest stored training of their kind, because others shared the
machine with more work and some were made by slower code. Vision-language rows have those of the
quickest stored row of their kind too, and the estimate of their table where none says its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.claim_findings import FITTED, differences
from benchmarks.closed_loop import over_seeds
from benchmarks.large_findings import TAUGHT
from benchmarks.light_findings import light_recipe
from benchmarks.markdown import paragraph
from benchmarks.recipes_of_today import STEPS, TOKENIZER_STEPS, changes_since
from benchmarks.record import read_results
from benchmarks.vlm_training import Options as VlmOptions
from oatkit.jobs.paper_tables import PaperTable, paper_table
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.tokenizers.kind_table import kind_named

BY_FLAGS = {"steps", FITTED}
"""Entries of a recipe that scripts have flags for."""


@dataclass(frozen=True)
class LightScript:
    """A script of light policies.

    Attributes:
        name: Name of the script and of its JSON file.
        table: Table whose rows it runs.
        stored: Scheme to its first stored row.
        arguments: What it is called with for this table.
    """

    name: str
    table: PaperTable
    stored: Mapping[str, Mapping[str, Any]]
    arguments: str = ""

    @classmethod
    def named(cls, name: str, table: str) -> LightScript:
        """The script of a name, for one of its tables."""
        found, arguments = read_results(name), ""
        if name == "policy_table":
            found = found.get("state", {})
        if name == "policy_sweep":
            found, arguments = found.get(table, {}), f"--tables {table}"
        stored = {scheme: own[0] for scheme, own in over_seeds(found).items()}
        return cls(name, paper_table(table), stored, arguments)

    def command(self, rows: Sequence[str], flags: str) -> str:
        """The command that measures rows."""
        words = (f"python -m benchmarks.{self.name}", self.arguments, f"--only {quoted(rows)}")
        return " ".join(word for word in (*words, flags) if word)

    def commands(self, rows: Sequence[str]) -> list[str]:
        """The commands that train rows as they are stored; those that are not, as the first that
        is."""
        groups: dict[str, list[str]] = {}
        for row in rows:
            like = self.stored.get(row, self.reference(rows))
            groups.setdefault(self.step_flags([row], like), []).append(row)
        return [self.command(own, flags) for flags, own in groups.items()]

    def step_flags(self, rows: Sequence[str], like: Mapping[str, Any] | None) -> str:
        """The flags that train rows for the steps of a stored one; none for today's."""
        if like is None:
            return ""
        asked = {"--steps": (like["steps"], STEPS)}
        if any(kind_named(self.table.all_rows[row].kind).is_learned for row in rows):
            steps = like["tokenizer_steps"] or TOKENIZER_STEPS
            asked["--tokenizer-steps"] = steps, TOKENIZER_STEPS
        return " ".join(f"{flag} {own}" for flag, (own, now) in asked.items() if own != now)

    def reference(self, rows: Sequence[str]) -> Mapping[str, Any] | None:
        """The first of some rows that is stored."""
        return next((self.stored[row] for row in rows if row in self.stored), None)

    def lacking(self, rows: Sequence[str]) -> tuple[list[str], str]:
        """The rows that are to be measured before they can be compared, and the flags for it.

        The first that is stored is what the others are trained like, unless the preset has changed
        since in what no flag changes: then all are measured again.
        """
        like = self.reference(rows)
        if like is None or self._is_outdated(like, rows):
            found, flags = list(rows), ""
        else:
            found = [row for row in rows if self._is_unlike(row, like)] or list(rows)
            flags = self.step_flags(found, like)
        again = "--again" if any(row in self.stored for row in found) else ""
        return found, " ".join(word for word in (flags, again) if word)

    def _is_outdated(self, like: Mapping[str, Any], rows: Sequence[str]) -> bool:
        name = next(row for row in rows if self.stored.get(row) is like)
        return bool(changes_since(like, self.table.all_rows[name]).keys() - BY_FLAGS)

    def _is_unlike(self, row: str, like: Mapping[str, Any]) -> bool:
        own = self.stored.get(row)
        return own is None or differences([light_recipe(one, 0.0) for one in (own, like)]) != ""


def light(name: str, *rows: str, table: str = "light-policies") -> Callable[[], str]:
    """A function that says what it takes to compare rows of light policies.

    Args:
        name: Name of the script.
        rows: Rows; those that were not trained as the first one are to be measured.
        table: Table of `policy_sweep`.
    """

    def needs() -> str:
        script = LightScript.named(name, table)
        lacking, flags = script.lacking(rows)
        hours = _training_hours(script, lacking, script.reference(rows) or {})
        return f"needs {hours}, `{script.command(lacking, flags)}`"

    return needs


def generating(*rows: str) -> Callable[[], str]:
    """A function that says what it takes to compare rows of `benchmarks.vlm_pipeline`.

    Args:
        rows: Rows; where all are stored, they act in too few ways yet.
    """

    def needs() -> str:
        stored = read_results("vlm_pipeline").get("policies", {})
        lacking = [row for row in rows if row not in stored] or rows
        hours = _generating_hours(lacking, stored) or _estimate("vlm-policies", len(lacking))
        return f"needs {hours}, `python -m benchmarks.vlm_pipeline --only {quoted(lacking)}`"

    return needs


def teaching(family: str, *kinds: str) -> Callable[[], str]:
    """A function that says what it takes to compare kinds that teach an expert."""
    flags = f'--recipes "{TAUGHT}" --kinds {" ".join(kinds)} --families {family} --seeds 0'
    hours = _estimate("co-training", len(kinds))
    return lambda: f"needs {hours}, `python -m benchmarks.vlm_expert {flags}`"


def script(name: str, table: str | None = None) -> Callable[[], str]:
    """A function that names the script that measures one thing in minutes, or all rows of a table.

    Args:
        name: Name of the script.
        table: The table, whose estimate is given.
    """
    hours = "minutes" if table is None else _estimate(table, len(paper_table(table).rows))
    return lambda: f"needs {hours}, `python -m benchmarks.{name}`"


def quoted(rows: Iterable[str]) -> str:
    """Names of rows as a shell takes them."""
    return " ".join(f'"{row}"' if " " in row else row for row in rows)


def trained_hours(one: PaperTable) -> str:
    """How long the policies and tokenizers of a table of light policies train at least, beside the
    estimate for all of it; empty where no training of one of its kinds is stored."""
    hours = least_hours(one)
    if hours is None:
        return ""
    what = "Its tokenizers alone" if one.work != "policies" else "Its policies and tokenizers alone"
    words = paragraph(
        f"The estimate is for all rows, episodes included. {what} train for about "
        f"{hours:.1f} hours in as many steps as today's recipe has, by the quickest stored "
        "training of each kind."
    )
    return f"\n{words}\n"


def least_hours(one: PaperTable) -> float | None:
    """How long the trainings of a table take by the quickest stored ones of their kinds; None where
    a kind has none, and for vision-language policies."""
    if one.is_large or one.work == "nothing":
        return None
    if one.work == "comparison":
        tokenizers = [PolicyRow(kind) for kind in one.row_names]
    else:
        tokenizers = list({row.tokenizer_name: row for row in one.rows.values()}.values())
    policies = {row.policy_name: row for row in one.rows.values()} if one.work == "policies" else {}
    learns = {row.kind: tokenizer_seconds_per_step(row.kind) for row in tokenizers}
    acts = {kind: seconds_per_step(kind) for kind in {row.kind for row in policies.values()}}
    parts = [_times(learns[row.kind], row.tokenizer_steps or TOKENIZER_STEPS) for row in tokenizers]
    parts += [_times(acts[row.kind], row.steps or STEPS) for row in policies.values()]
    known = [seconds for seconds in parts if seconds is not None]
    return sum(known) / 3600 if len(known) == len(parts) else None


def _times(seconds: float | None, steps: int) -> float | None:
    return None if seconds is None else seconds * steps


def _training_hours(script: LightScript, rows: Sequence[str], like: Mapping[str, Any]) -> str:
    """About how long rows train, by the quickest stored trainings of their kinds."""
    steps, fitted = like.get("steps", STEPS), like.get("tokenizer_steps") or TOKENIZER_STEPS
    seconds = 0.0
    for kind in (script.table.all_rows[row].kind for row in rows):
        policy, tokenizer = seconds_per_step(kind), tokenizer_seconds_per_step(kind)
        if policy is None or tokenizer is None:
            return _estimate("light-policies", len(rows))
        seconds += policy * steps + tokenizer * fitted
    return f"about {seconds / 3600:.1f} hours on two cores to train, and episodes come on top"


def seconds_per_step(kind: str) -> float | None:
    """What a step of a light policy on a kind took in its quickest stored training; None without
    any."""
    tables = (read_results("policy_table").get("state", {}), read_results("policy_robosuite"))
    cells = read_results("control").get("cells", {})
    rows = [row for table in (*tables, cells) for row in table.values()]
    timed = (row for row in rows if row["kind"] == kind and row.get("seconds"))
    return min((row["seconds"] / row["steps"] for row in timed), default=None)


def tokenizer_seconds_per_step(kind: str) -> float | None:
    """What a step of a tokenizer took in its quickest stored training, on MetaWorld; 0 where it has
    none, None where none is stored."""
    if not kind_named(kind).is_learned:
        return 0.0
    row = read_results("tokenizer_rate_distortion").get("metaworld", {}).get(kind)
    found = [] if row is None else [row["seconds"] / row["steps"]]
    found += [
        cell["tokenizer_seconds"] / cell["tokenizer_steps"]
        for cell in read_results("control").get("cells", {}).values()
        if cell["kind"] == kind and cell.get("tokenizer_seconds")
    ]
    return min(found, default=None)


def _generating_hours(rows: Sequence[str], stored: Mapping[str, Mapping[str, Any]]) -> str:
    """About how long policies train that generate tokens, by the quickest stored ones of the same
    kind on any backbone; empty where one has none that says its time."""
    steps, seconds = VlmOptions().steps, 0.0
    for name in rows:
        timed = [
            row["seconds"] / row["settings"]["steps"]
            for other, row in stored.items()
            if other.split("/")[:2] == name.split("/")[:2] and row.get("seconds")
        ]
        if not timed:
            return ""
        seconds += min(timed) * steps
    return f"about {seconds / 3600:.1f} hours on two cores to train, and episodes come on top"


def _estimate(table: str, count: int) -> str:
    """About how long some rows of a table take, by the estimate for all of it."""
    one = paper_table(table)
    hours = count * one.minutes / len(one.rows) / 60
    return f"about {hours:.1f} hours on two cores by estimate"
