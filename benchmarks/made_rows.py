"""How the rows of the reproduction page were made, from the JSON files in `benchmarks/results/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claim_findings import difference, differences
from benchmarks.control import GOALS
from benchmarks.large_findings import TAUGHT, TAUGHT_ACTS
from benchmarks.light_findings import (
    at_all_tokens,
    control_levels,
    control_rows,
    control_temperature,
    light_recipe,
)
from benchmarks.markdown import paragraph, said, table
from benchmarks.recipes_of_today import STEPS, TOKENIZER_STEPS
from benchmarks.record import read_results
from benchmarks.report_tokenizers import tokenizer_rows
from benchmarks.tokenizer_findings import NAMES, SOURCE
from oatkit.jobs.paper_tables import LARGE_OAT, PaperTable
from oatkit.jobs.reproduction_scales import SCALES, Place
from oatkit.jobs.untrained_policy import row_steps
from oatkit.presets import policy_preset, tokenizer_preset, vlm_preset

LIGHT_NAMES = (
    *("JSON", "row", "FSQ levels", "tokens", "steps", "tokenizer's steps", "frames", "smoothing"),
    *("offset", "temperature", "episodes a task"),
)
SMALL = SCALES["small"]


def light_rows() -> str:
    """How each row of the light tables was trained and evaluated."""
    tables = {
        "policy_table": read_results("policy_table").get("state", {}),
        "policy_table, from images": read_results("policy_table").get("images", {}),
        **{f"policy_sweep, {name}": rows for name, rows in read_results("policy_sweep").items()},
        "policy_pusht": read_results("policy_pusht"),
        "policy_robosuite": read_results("policy_robosuite"),
    }
    cells = [_control_row(name, rows) for name, rows in control_rows().items()]
    cells += [
        (name, *_light_row(label, row))
        for name, rows in tables.items()
        for label, row in rows.items()
    ]
    if not cells:
        return ""
    now = policy_preset(SMALL.light)
    words = paragraph(
        "How the rows of light policies were made here. The paper states neither its numbers of "
        "steps nor its sampling temperature. Rows of `control` come first, where both that are "
        "compared are there: the episodes of all their seeds count. Else both are of "
        "`policy_table`. The preset "
        f"`{SMALL.light}` has changed since some rows were made: each says how many frames its "
        "policy sees, how wide its targets are around the true codes (smoothing, in levels) and "
        "how many layers its offset head has. The commands below now train with "
        f"{now.history} frame, smoothing {now.net.code_smoothing:g}, no offset head, "
        f"{STEPS} steps and {TOKENIZER_STEPS} of a learned tokenizer. The paper's "
        "`quest` has the levels 8 8 6 5. Levels are empty where a kind has none, or none were "
        "stored. Where budgets have different numbers of episodes of a task, all are given, from "
        "the smallest budget on. Rows of today store all of this. Frames, smoothing and offset "
        "heads of rows that were stored before they said them are those of the presets of their "
        "time (`benchmarks/record.py`), the temperature of such rows of `control` is the 0 of its "
        "script, and the tokenizer of a `prefix_picture` without steps is the one that is called "
        "long, of 11000."
    )
    return f"\n{words}\n\n{table(LIGHT_NAMES, cells)}\n"


def same_recipe() -> str:
    """What two trainings by the same recipe found, where both are stored; else empty."""
    cell = read_results("control").get("cells", {}).get("oat, as first/0/half")
    row = read_results("policy_table").get("state", {}).get("oat")
    if cell is None or row is None:
        return ""
    recipes = [
        light_recipe(cell, control_temperature(cell)),
        light_recipe(row, row["protocol"]["sampling"]["temperature"]),
    ]
    if differences(recipes):
        return ""
    own, other = (at_all_tokens(each)["success"] for each in (row, cell))
    change, low, high = difference(own, other)
    words = paragraph(
        "One recipe has two rows: `oat, as first` of `control` agrees with `oat` of `policy_table` "
        f"in all of these columns, has seed {cell['seed']}, and solves {100 * other['rate']:.1f} % "
        f"with all tokens and half a chunk executed, where that one solves "
        f"{100 * own['rate']:.1f} %: {100 * change:+.0f} points ({100 * low:+.0f} to "
        f"{100 * high:+.0f}). Both scripts take the same demonstrations by default; tokenizer and "
        f"policy are trainings of their own, and the goals are others (seed {GOALS} of `control`, "
        f"{row['protocol']['seed']} of `policy_table`). What accounts for the difference was not "
        "measured: a row of one seed may be off by as much."
    )
    return f"\n{words}\n"


def repeated_goals() -> str:
    """Which rows pool seeds that met the same goals, and what that does to their intervals."""
    found = [
        (f"`{name}` of `control`", len(cells), at_all_tokens(cells[0])["success"]["episodes"])
        for name, cells in control_rows().items()
    ]
    taught: dict[str, list[dict[str, Any]]] = {}
    for row in taught_rows():
        name = f"`{row['kind']}` on `{row['family']}` of `vlm_expert`"
        taught.setdefault(name, []).append(row)
    found += [
        (name, len(rows), rows[0]["success"][TAUGHT_ACTS]["all"]["episodes"])
        for name, rows in taught.items()
    ]
    rows = [f"{name} ({seeds} seeds, {goals} goals)" for name, seeds, goals in found if seeds > 1]
    if not rows:
        return ""
    words = paragraph(
        "Episodes of all seeds of a row count as independent ones. In `control` and `vlm_expert` "
        "every seed meets the same goals, and what is hard for one is likely to be hard for the "
        "others: intervals that hold several seeds of these are a little too narrow. They are "
        f"those with {' and '.join(rows)}."
    )
    return f"\n{words}\n"


def _control_row(name: str, cells: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """How a row of `benchmarks.control` was made, with all of its seeds."""
    cell, temperature = cells[0], control_temperature(cells[0])
    tokens = max(b["budget"] for b in cell["budgets"] if b["budget"] != "auto")
    seeds = ", ".join(str(cell["seed"]) for cell in cells)
    made = _made(cell, tokens, control_levels(cell), temperature)
    return "control", f"`{name}`, seeds {seeds}", *made


def _light_row(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    levels = (row["settings"]["tokenizer"] or {}).get("levels", ())
    temperature = row["protocol"]["sampling"]["temperature"]
    return f"`{name}`", *_made(row, row["tokens"], levels, temperature)


def _made(
    row: Mapping[str, Any], tokens: int, levels: Iterable[int], temperature: float
) -> tuple[str, ...]:
    return (
        *(" ".join(map(str, levels)), str(tokens)),
        *(str(row["steps"]), str(row["tokenizer_steps"] or 0)),
        *(str(row["history"]), f"{row['code_smoothing']:g}", str(row["offset_layers"])),
        *(f"{temperature:g}", episodes(row["budgets"])),
    )


def episodes(budgets: Sequence[Mapping[str, Any]]) -> str:
    """Numbers of episodes of each task, in words: `50`, or `can 10, lift 20 / 18`."""
    counts: dict[str, list[int]] = {}
    for budget in budgets:
        for task in budget["tasks"]:
            counts.setdefault(task["task"], []).append(task["success"]["episodes"])
    if len({count for each in counts.values() for count in each}) == 1:
        return str(next(iter(counts.values()))[0])
    return ", ".join(
        f"{task} {each[0] if len(set(each)) == 1 else ' / '.join(map(str, each))}"
        for task, each in counts.items()
    )


def tokenizer_steps() -> str:
    """Training steps of every row of rate-distortion."""
    found = {data: tokenizer_rows(rows) for data, rows in read_results(SOURCE).items()}
    if not found:
        return ""
    names = dict.fromkeys(name for rows in found.values() for name in rows)
    cells = [
        (
            f"`{name}`",
            *(str(rows[name]["steps"]) if name in rows else "" for rows in found.values()),
        )
        for name in names
    ]
    measured = [row for rows in found.values() for row in rows.values()]
    words = paragraph(
        f"Training steps of every tokenizer of `{SOURCE}`, whose chunks have "
        f"{said(measured, 'horizon')} actions; 0 is fitted, and what is empty was not measured."
    )
    return f"\n{words}\n\n{table(('row', *(NAMES[data] for data in found)), cells)}\n"


def large_rows() -> str:
    """How the vision-language policies that are compared were trained and evaluated."""
    sentences = []
    if rows := generating_rows():
        sentences.append(
            f"Vision-language policies that generate tokens have chunks of {said(rows, 'horizon')} "
            f"actions and {said(rows, 'tokens')} tokens, {said(rows, 'steps')} steps of batch "
            f"{said(rows, 'batch_size')}, tokenizers of {said(rows, 'tokenizer_steps')} steps, "
            f"seed {said(rows, 'seed')}, temperature {_temperatures(rows)} and "
            f"{said(rows, 'episodes')} episodes a task."
        )
    if taught := taught_rows():
        first = taught[0]
        together, alone = _stage_steps(first)
        sentences.append(
            f"In co-training tokens and expert learn together for {together} steps of batch "
            f"{first['batch_size']}, then the expert alone for {alone}; chunks have "
            f"{said(taught, 'horizon')} actions and {said(taught, 'tokens')} tokens of tokenizers "
            f"of {said(taught, 'tokenizer_steps')} steps; the expert acts from zero noise, "
            f"{first['episodes']} episodes a task and seed."
        )
    sentences.append("`bin` and `fast` are fitted and have no steps.")
    return f"\n{paragraph(*sentences)}\n" if len(sentences) > 1 else ""


def _temperatures(rows: Sequence[dict[str, Any]]) -> str:
    return " or ".join(dict.fromkeys(f"{row['settings']['temperature']:g}" for row in rows))


def generating_rows() -> list[dict[str, Any]]:
    """Vision-language policies that generate tokens."""
    pipeline = read_results("vlm_pipeline").get("policies", {})
    return [row for name, row in pipeline.items() if name.startswith("vlm-ar/")]


def taught_rows() -> list[dict[str, Any]]:
    """Vision-language policies that co-training is compared by."""
    rows = read_results("vlm_expert").get("rows", {}).values()
    return [row for row in rows if row["recipe"] == TAUGHT]


def _stage_steps(row: Mapping[str, Any]) -> list[int]:
    return [round(stage["share"] * row["steps"]) for stage in row["stages"]]


def other_recipe(one: PaperTable) -> str:
    """How the small scale of a table differs from what the claims are decided by, as a table; empty
    where both are made by the same code."""
    if not one.is_large:
        return ""
    policy = next(iter(one.rows.values())).policy
    rows = taught_rows() if policy == "vlm-tc" else generating_rows()
    if not rows:
        return ""
    script = "vlm_expert" if policy == "vlm-tc" else "vlm_pipeline"
    preset, name = vlm_preset(SMALL.large, policy), SMALL.large
    steps, horizon = row_steps(policy, name), Place("", Path()).horizon
    learned = tokenizer_preset(name).train
    cells = [
        ("actions of a chunk", said(rows, "horizon"), str(horizon)),
        ("tokens of `oat`", said(rows, "tokens"), str(LARGE_OAT["num_tokens"])),
        ("demonstrations of a task", said(rows, "demonstrations"), str(SMALL.demonstrations)),
        ("steps of a learned tokenizer", said(rows, "tokenizer_steps"), str(learned.steps)),
        ("its batch", said(rows, "tokenizer_batch_size"), str(learned.batch_size)),
        *_training(rows, policy, str(steps), str(preset.expert.width)),
        ("batch of a policy", _batch(rows), str(preset.train.batch_size)),
        ("longest episode", f"{said(rows, 'max_steps')} steps", "the simulator's"),
        ("shadows", "none", "as the simulator renders them"),
    ]
    words = paragraph(
        f"The claims are decided by `benchmarks/{script}.py`, not by this command, whose small "
        "scale differs from it in:"
    )
    different = [cell for cell in cells if cell[1] != cell[2]]
    return f"\n{words}\n\n{table(('', f'`{script}`', 'this command'), different)}\n"


def _training(
    rows: Sequence[dict[str, Any]], policy: str, steps: str, width: str
) -> list[tuple[str, str, str]]:
    """Steps of the policy and, where there is an expert, its training and its width."""
    if policy != "vlm-tc":
        evaluated = ("episodes of a task", said(rows, "episodes"), str(SMALL.episodes))
        return [("steps of a policy", said(rows, "steps"), steps), evaluated]
    together, alone = _stage_steps(rows[0])
    draws = rows[0]["stages"][-1]["flow_draws"]
    stages = f"{together}, then {alone} of the expert alone with {draws} flow draws of a context"
    return [
        ("steps of a policy", stages, f"{steps} in one stage"),
        ("width of the expert", said(rows, "expert_width"), width),
        ("episodes of a task", str(rows[0]["episodes"]), str(SMALL.episodes)),
    ]


def _batch(rows: Sequence[dict[str, Any]]) -> str:
    """Batch sizes, which stand beside the settings of some rows and in those of others."""
    sizes = dict.fromkeys(
        str(row.get("batch_size") or row["settings"]["batch_size"]) for row in rows
    )
    return " or ".join(sizes)
