"""Which stored rows have the recipe of today, as far as they say how they were trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.claim_findings import FITTED, Recipe
from benchmarks.closed_loop import Cell
from benchmarks.light_findings import light_recipe
from benchmarks.markdown import paragraph, table
from benchmarks.policy_pusht import KEYPOINTS
from benchmarks.policy_robosuite import IMAGES
from benchmarks.record import read_results
from benchmarks.tokenizer_rate_distortion import ROWS
from oatkit.jobs.paper_tables import paper_table
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import SCALES
from oatkit.jobs.untrained_policy import row_steps
from oatkit.presets import policy_preset, tokenizer_preset
from oatkit.tokenizers.kind_table import kind_named

PRESET = SCALES["small"].light
STEPS = row_steps("light", PRESET)
"""Training steps of a light policy today."""
TOKENIZER_STEPS = tokenizer_preset(PRESET).train.steps
"""Training steps of a learned tokenizer today."""


def todays_recipe(row: PolicyRow) -> Recipe:
    """How a row of light policies is trained today, as `light_recipe` has it."""
    now = policy_preset(PRESET)
    return {
        "steps": row.steps or STEPS,
        FITTED: _tokenizer_steps(row),
        "batch size": now.train.batch_size,
        "frames": now.history,
        "code smoothing": now.net.code_smoothing,
        "offset layers": row.offset_layers,
    }


def _tokenizer_steps(row: PolicyRow) -> int | None:
    """Training steps of a row's tokenizer today; None where it has none."""
    return (row.tokenizer_steps or TOKENIZER_STEPS) if kind_named(row.kind).is_learned else None


def changes_since(stored: Mapping[str, Any], row: PolicyRow) -> dict[str, tuple[Any, Any]]:
    """Entries of the recipe of a stored light row that are others today, then and now."""
    then, now = light_recipe(stored, 0.0), todays_recipe(row)
    return {name: (then[name], now[name]) for name in now if then[name] != now[name]}


def recipes_of_today() -> str:
    """Which rows of the scripts that share the code of `oatkit reproduce` have today's recipe."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for source, label, changes in _stored():
        words = "; ".join(f"{name} {then}, now {now}" for name, (then, now) in changes.items())
        found.setdefault(words, {}).setdefault(source, {})[f"`{label}`"] = None
    if not found:
        return ""
    same = found.pop("", {})
    words = paragraph(
        "Presets have changed since rows were stored. As far as rows say it, these have the recipe "
        f"of today: {_listed(same) or 'none'}. The others were made by earlier ones, so that the "
        "commands below train them otherwise:"
    )
    rows = [(changes, _listed(sources)) for changes, sources in found.items()]
    return f"\n{words}\n\n{table(('recipe', 'rows'), rows)}\n" if rows else f"\n{words}\n"


def _listed(sources: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(f"{', '.join(labels)} of `{source}`" for source, labels in sources.items())


def _stored() -> Iterator[tuple[str, str, dict[str, tuple[Any, Any]]]]:
    """JSON file, label and what has changed since, of every stored row."""
    for source, rows, known in _light_tables():
        for label, stored in rows.items():
            name = Cell.labeled(label).name.removesuffix(KEYPOINTS).removesuffix(IMAGES)
            if name in known:
                yield source, label, changes_since(stored, known[name])
    for data, rows in read_results("tokenizer_rate_distortion").items():
        for label, row in ROWS.items():
            if label in rows:
                then, now = rows[label]["steps"], _tokenizer_steps(row) or 0
                changes = {} if then == now else {FITTED: (then, now)}
                yield "tokenizer_rate_distortion", f"{data}/{label}", changes


def _light_tables() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, PolicyRow]]]:
    """JSON file, its rows, and the rows of the table that they are."""
    light = paper_table("light-policies").all_rows
    for rows in read_results("policy_table").values():
        yield "policy_table", rows, light
    for name, rows in read_results("policy_sweep").items():
        yield "policy_sweep", rows, paper_table(name).all_rows
    yield "policy_robosuite", read_results("policy_robosuite"), light
    yield "policy_pusht", read_results("policy_pusht"), paper_table("pusht").all_rows
